package ownertest

func useMemory() error { return nil }
