//go:build !race

package damagetest

const raced = false
