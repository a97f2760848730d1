// Package nodestrial puts nodes of clusters through faults. Two nodes are processes that execute run after run; they are killed, with
// their directory or without, or stopped, their links are cut, swallow or take long, and the servers that they share are harmed. All that was
// acknowledged must be there in the end, nothing of it twice.
//
// [Run] is a trial; TestMain calls [ServeChild], which makes the test binary a node. A module of its own says how its servers are reached and
// harmed. It is for unix systems.
package nodestrial
