package disktest

// legacy are calls that only old architectures have.
var legacy []uintptr

func legacyOpen(uintptr) bool { return false }
