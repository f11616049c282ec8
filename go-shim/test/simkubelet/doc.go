// Package simkubelet plays the kubelets, the GPU device plugins and the pod garbage collector of simulated nodes against
// a real API server.
//
// A node in enforced mode behaves like one with Mortise's device plugin: it advertises shares beside whole cards,
// publishes its inventory, follows the devices that the scheduler chose, takes a card out of the whole-card count while
// shares are on it and its units out of the share count while it is held whole, and records what it gave to whom. A node
// in counts mode behaves like one with the stock device plugin: it picks cards itself.
//
// Whatever a scheduler asks that a real node could not do (two pods on one card, a card that does not exist) is kept as a
// Violation, for tests to assert on.
package simkubelet
