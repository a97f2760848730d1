package timeout

import . "time"

var other string

func wait() { Sleep(Second) }
