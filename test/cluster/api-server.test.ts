/** Clients of an API server that are no operators, on one that has no controllers. */
import './api-server/cluster-issuer.ts'
import './api-server/lease.ts'
import './api-server/reflector.ts'
import './api-server/registry-source.ts'
