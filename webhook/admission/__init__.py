"""AdmissionReview v1 in and out: any bytes give an answer."""
