package replay

// Kept returns how many states a stepper can go back to.
func (s *Stepper) Kept() int { return len(s.kept) }
