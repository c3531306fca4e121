// Package dashboard serves pages for people over the Job API: the person on call, and the person who waits for a job.
//
// Pages are made on the server from templates, and all of them work without JavaScript. What a page shows it asks of the Job API,
// in the name of its visitor: with the visitor's address, header and token, so that the API's guard judges who
// really asks. The package keeps nothing but templates, and knows no door of the fleet.
package dashboard
