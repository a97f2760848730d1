package ownertest

const childRole = "PAWL_OWNERTEST_ROLE"

func child(string) error { return nil }
