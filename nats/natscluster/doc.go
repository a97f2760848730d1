// Package natscluster connects the nodes of a cluster by NATS JetStream, and tells others what happens there.
// Open returns what the nodes share: the log and the bases of package natslog, and a lease in a Cell. A Feed
// publishes the events of runs into a stream: see [pawl.FeedOptions]. nats/README.md has the settings.
//
//	backend, err := natscluster.Open(ctx, conn, natscluster.Options{Name: "orders", Replicas: 3})
//	feed, err := natscluster.OpenFeed(ctx, conn, natscluster.FeedOptions{Name: "orders"})
package natscluster
