// Package decision is the closed set of changes that a planner can make to a
// run. Decisions are values: they are logged, compared and replayed. What one
// means is written once, in [Evolve]; what it tells the world, in [Events].
//
// Decisions carry results, not instructions: an applier branches on the type
// and on nothing else. Wide changes are narrow decisions: a fan-out, the close
// of a group and the end of a run are one decision each, however many tokens
// they concern.
//
// The vocabulary of the architecture documents that pawl grew from maps onto
// this one:
//
//	CREATE_TOKEN                              CreateToken
//	BATCH_CREATE_TOKENS, INIT_BRANCH_TABLE    CreateBranches
//	MARK_FOR_DISPATCH, DISPATCH_TOKEN         DispatchTask
//	COMPLETE_TOKEN(S), UPDATE_TOKEN_STATUS,
//	BATCH_UPDATE_STATUS, CANCEL_TOKENS        CompleteToken, FailToken, ExpireToken, CancelToken
//	MARK_WAITING, CHECK_SYNCHRONIZATION       AwaitSiblings, ArriveBranch, EndBranch, FailBranch
//	SET_CONTEXT, APPLY_OUTPUT(_MAPPING)       SetData, AppendData
//	(TRY_)ACTIVATE_FAN_IN, MERGE_BRANCHES,
//	DROP_BRANCH_TABLES, APPLY_BRANCH_OUTPUT   MergeBranches, FireGroup
//	INITIALIZE_, COMPLETE_, FAIL_WORKFLOW     StartRun, CompleteRun, FailRun, ExpireRun, CancelRun
package decision
