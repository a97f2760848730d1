// Package portable writes and reads exported runs. An export is a text of JSON, one object a
// line, that depends on nothing around it:
//
//	{"export":{"version":1,"run":"order-42"}}
//	{"run":{"id":"order-42","hash":"...","definition":{...}}}
//	{"record":{"seq":1,"at":1893495600000,"epoch":...,"planner":...,"message":{...},"decisions":[...]}}
//	{"end":{"lines":3,"sha256":"..."}}
//
// A run line is followed by all records of that run, as package codec writes them; values that
// stand apart are in the record that refers to them. Runs come before those that they started.
// The end line counts the lines before it, and has the SHA-256 of their bytes. Exports may be
// put one behind the other into one file.
//
// In version 2 blobs come behind the runs, in pieces of 512 KiB and less, each with all of its blob behind it:
//
//	{"blob":{"hash":"sha256:...","data":"<base64>","more":true}}
//
// "redacted":true in the first line says that values are only shapes: texts of x, 0 and false. The
// records of such an export cannot be planned again.
package portable
