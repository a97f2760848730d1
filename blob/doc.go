// Package blob keeps large values out of the state of runs: by content address,
// in a [Store], with a small [Ref] in their place.
//
// A reference is a JSON object that stands in a result, an input or a mapping:
//
//	{"$blob": "sha256:2cf24dba...", "size": 5, "type": "text/plain"}
//
// [Refs] finds the references in a value; "$blob" is a reserved key, so an object
// that has it but is not a reference is an error, never plain data.
//
// [Files] is the Store on a folder, the engine directory's blobs/:
//
//	blobs/2c/f24dba5f...   one file per content, named after its SHA-256
//	blobs/tmp/put-...      what is being written
//
// # Writing
//
// Put streams into a file of its own under tmp and hashes on the way. Then it
// syncs the file, renames it to its address, and syncs the folder that the name
// is in, and the folders above it where they may be new: the rename is the
// commit, and a name never stands for a part of its content. A crash leaves a
// file in tmp, which OpenFiles removes, or a complete blob without a reference,
// which a later collection removes.
//
// The same bytes are kept once. If their file exists with the right size, Put
// reads it through and compares the hash: a copy that is whole only gets a new
// time, a damaged one is replaced. That costs one more reading of the content,
// and saves writing it: the temporary file is removed before it was synced. For
// 1 MiB that was the quicker way by a third where a sync takes a millisecond.
//
// # Reading
//
// An address is a promise about every byte, so the reader hashes what it hands
// out and ends in [ErrDamaged] instead of io.EOF if the promise was broken. The
// bytes before that are only known to be right once io.EOF was seen.
//
// Nothing is followed out of the folder or within it: every path is opened below
// an os.Root, and what is no regular file is damage and not a blob.
//
// # Collection
//
// A blob has the time at which it was last put. A collection takes the references
// that are in use and deletes all other blobs with a time before some moment in
// the past: a Put whose reference is not committed yet is younger than that. Put
// gives a blob its name, or its new time, in one step that excludes Delete, so a
// blob that Put has found is not deleted under its hands for being old. A loss of
// power may take the new time back. But it also ends every process that held a
// reference which was not committed, so nothing hangs on that time.
//
// # Bounds
//
// Put reads until the reader ends; the caller bounds it. It holds 64 KiB of the
// content in memory. The folder has at most 257 folders in it.
//
// One Files at a time may be open on a folder, unless Options say otherwise; the engine's lock sees
// to that. It may be used by many goroutines.
//
// # Sources
//
// The two-digit folders and the files that are never changed are those of Git's
// object store (gitformat-loose-objects); the form "sha256:" with 64 hexadecimal
// digits is the digest of the OCI image specification; SHA-256 is FIPS 180-4.
// Writing beside, syncing, renaming and syncing the folder is the order that
// Pillai et al. found to hold on every file system they checked ("All File
// Systems Are Not Created Equal", OSDI 2014).
package blob
