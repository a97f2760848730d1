// Package natslog keeps a copy of an engine's directory on the servers of NATS JetStream, which outlives the machine
// of the engine: see [pawl.Engine.Follow]. A Log has the commits in a stream; Blobs has the bases, and other blobs,
// in an object store. CheckServers, and the command pawl-nats doctor, say whether the servers are set up for that.
//
//	changes, err := natslog.Open(ctx, conn, natslog.Options{Name: "orders", Replicas: 3})
//	bases, err := natslog.OpenBlobs(ctx, conn, natslog.BlobsOptions{Bucket: "orders", Replicas: 3})
//
// nats/README.md has the settings, and what is lost when.
package natslog
