package pawl

import "github.com/pawl-run/pawl/internal/hook"

func init() {
	hook.Fence = func(engine any) { engine.(*Engine).dir.Fence() }
}
