// Package image writes and reads the bytes of SQLite databases without SQLite. The file
// of a run is written once and never changed in place, so that most of the cost would be the work of SQLite for a
// connection (parse the schema, prepare statements, keep pages and roll them back); here the rows of all tables become
// the pages of a file in one pass, and are read from there. A [Writer] does so in memory, a [Stream] in a file of any
// size, with a few of its pages in memory; an [Image] is either.
//
// The format is the one of SQLite's "Database File Format", as far as files of runs use
// it: texts in UTF-8, tables with and without rowids, NULL, integers, texts and blobs, no
// further index. Every SQLite 3 can read and change the databases that the package writes.
// Databases that it reads may come from SQLite: any page size, trees of any shape, free pages.
// Bytes that are no such database are an error.
package image
