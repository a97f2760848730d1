package pg

import "time"

// SetAnswerTimeout changes how long a statement of the database may take that carries nothing.
func (d *Database) SetAnswerTimeout(timeout time.Duration) { d.answers = timeout }

// DeleteParts is deleteParts.
var DeleteParts = deleteParts
