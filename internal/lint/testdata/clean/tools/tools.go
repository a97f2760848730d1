package tools // a module of its own

import _ "github.com/pawl-run/pawl/nowhere"
