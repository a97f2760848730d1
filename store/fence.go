package store

// Fence makes everything fail with ErrClosed from now on, as if the process had
// died: a commit that has not begun never happens, and Close leaves the mark of
// an engine that did not close. A commit that is under way is waited for. What
// the files hold at that moment is what a crash would leave.
func (d *Dir) Fence() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.dead == nil {
		d.dead = ErrClosed
	}
}
