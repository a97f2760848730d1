// Package redo reads and writes the file pawl.db-redo, the redo log of one life of an engine
// directory: commits that pawl.db lacks yet, as frames, one behind the other. To append a frame is
// one write, and one sync; a transaction of SQLite writes a page for each table that it changes.
//
// The file begins with sectors that are written one by one: the header, the owner, and one for each of
// two regions. A region has a generation, and the frames in it are of that: a region begins anew
// when everything in it stands elsewhere, with the next generation, and those frames that it had before
// count no more. While one region takes frames, what is in the other moves into pawl.db. Parts of a usual size get a
// share of a region only, and large ones the rest, so that few records are to be moved where many bytes are.
//
//	   0   "pawlredo", version, 1 if frames are synced, life, size of a region, checksum
//	 512   owner
//	1024   generation of region 0, checksum
//	1536   generation of region 1, checksum
//	4096   region 0, and region 1 behind it: frames
//
// A frame is its length without this header, 4 bytes, a checksum, 4, the generation, 8, its number in
// the file's life, 8, and the content, filled up to whole 8 bytes. The checksum, a CRC-32C, is of all
// that and of the life and the place of the frame in the file, so that none counts in another file or
// at another place. All numbers are little-endian.
//
// The life says which file it is: pawl.db names it, and is refused with any other. The owner is the
// epoch of the engine that may append, the life at first. An engine that takes a directory over
// writes its own there before it reads, and an engine that finds another one appends nothing more.
package redo
