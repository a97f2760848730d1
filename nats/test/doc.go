// Package natstest tests the packages of the module nats with embedded servers, with servers and workers that are
// processes and are killed, and has their examples. It is a module of its own, so that programs that use those
// packages do not depend on the server.
package natstest
