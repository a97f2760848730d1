package store

func shrink() {
	limit = 100
	names[0] = "b"
	use()
}
