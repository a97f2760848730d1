// Package portable writes and reads exported runs. An export is a text of JSON, one object a
// line, that depends on nothing around it:
//
//	{"export":{"version":3,"run":"order-42"}}
//	{"run":{"id":"order-42","hash":"...","definition":{...}}}
//	{"record":{"seq":1,"at":1893495600000,"epoch":...,"planner":...,"message":{...},"decisions":[...]}}
//	{"end":{"lines":3,"sha256":"..."}}
//
// A run line is followed by all records of that run, as package codec writes them; a value that
// stands apart is in the first record of the export that refers to it, under its SHA-256, and nowhere
// else: "values":{"<sha256>":{...}}. Runs come before those that they started.
// The end line counts the lines before it, and has the SHA-256 of their bytes. Exports may be
// put one behind the other into one file.
//
// Blobs come behind the runs, in pieces of 512 KiB and less, each with all of its blob behind it:
//
//	{"blob":{"hash":"sha256:...","data":"<base64>","more":true}}
//
// Versions 1 and 2 are read as well: in these every record has all values that it refers to, and in
// version 1 there are no blobs.
//
// "redacted":true in the first line says that values are only shapes: texts of x, 0 and false. The
// records of such an export cannot be planned again.
package portable
