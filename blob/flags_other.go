//go:build !unix

package blob

const noWait = 0
