package history

import "github.com/pawl-run/pawl/workflow"

// A DiskUse says how many bytes of an engine directory some of its runs, or another part of it, take.
type DiskUse struct {
	Part     string             `json:"part"`              // "runs": their files; "damaged": runs with damaged rows in the index, whose files are unknown; "index": pawl.db with its logs, and records not yet in files of runs; "blobs", unless they are kept elsewhere
	Workflow string             `json:"workflow,omitzero"` // name of the definition; "" for another part
	Status   workflow.RunStatus `json:"status"`            // of the runs
	Tenant   string             `json:"tenant,omitzero"`   // tenant of the runs; "" if none
	Age      string             `json:"age,omitzero"`      // since the end of a run, or since its start: "hours" is less than a day, "days" less than 7, "weeks" less than 31, and "months"; "" for another part
	Runs     int64              `json:"runs,omitzero"`
	Bytes    int64              `json:"bytes"`
	Free     int64              `json:"free"` // how many of these Purge, or an archive of ended runs, would free
}
