// Command etcd is etcd itself: the server of go.etcd.io/etcd, built as an ordinary module.
package main

import (
	"os"

	"go.etcd.io/etcd/server/v3/etcdmain"
)

func main() { etcdmain.Main(os.Args) }
