//go:build !race

package ownertest

const raced = false
