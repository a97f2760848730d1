// Package soundness looks for what goes wrong in a definition before it runs: it lets the
// planner play every run that it can within some bounds, and tells what no run should do.
//
// [Check] explores breadth first. A move is an input to a run: a task has completed or failed,
// an event, a vote, a time-out, another branch of an open group. Results are made up from the
// expressions that read them: from the values that conditions compare with and from neighbouring
// values, so that a comparison with a literal is tried both true and false. The report lists conditions that no tried value made true.
// States that differ only in the order of like branches, in ids or in instants are one state.
//
// Each finding is therefore a run that can happen, if tasks answer so, and has the shortest such
// run as a scenario, which pawl test plays. A report without a finding says that there is no
// fault, as far as the values go that were tried, if [Report.Complete] is true; otherwise
// [Report.Bounds] says why not. The word soundness is that of workflow nets (van der Aalst, 1997):
// a run can always come to its end, nothing is left over then, and nothing is dead.
package soundness
