"""What the chart's values write out of the configuration is what the model would take without them."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from webhook.configuration import Configuration

VALUES = Path(__file__).parents[3] / "charts" / "ascend-owner-guard" / "values.yaml"
DEFAULTS = Configuration().model_dump(mode="json", by_alias=True)


def _leaves(tree: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, Any]]:
    for key, value in tree.items():
        if isinstance(value, Mapping):
            yield from _leaves(value, (*above, key))
        else:
            yield ".".join((*above, key)), value


def _config() -> dict[str, Any]:
    config: dict[str, Any] = yaml.safe_load(VALUES.read_text(encoding="utf-8"))["config"]
    return config


@pytest.mark.parametrize("key, value", list(_leaves(_config())))
def test_a_value_is_the_default(key: str, value: Any) -> None:
    assert dict(_leaves(DEFAULTS))[key] == value


@pytest.mark.parametrize("section", ["kubeletPaths", "resources", "kinds", "identities.systemControllers"])
def test_what_decides_the_match_conditions_is_written_out(section: str) -> None:
    """Helm does not know the model's defaults: what the conditions are rendered from must be in the values."""
    written, known = dict(_leaves(_config())), dict(_leaves(DEFAULTS))
    fields_of_objects = ("nodeSelector", "driverHostPath")  # where to look in a HAMi resource: no condition does
    asked = {key for key in known if f"{key}.".startswith(section + ".") and not key.endswith(fields_of_objects)}
    assert asked
    assert asked <= written.keys()


def test_driver_trees_outside_the_defaults_are_all_that_the_conditions_take_from_elsewhere() -> None:
    """`driverPaths` may be left out of the values only because its default says Ascend, which the conditions know."""
    assert all("Ascend" in path for path in DEFAULTS["driverPaths"])
