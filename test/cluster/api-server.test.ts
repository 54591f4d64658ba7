/** Checks our kinds and rendered objects against a real API server without controllers, and its other clients. */
import './api-server/cluster-issuer.ts'
import './api-server/crds.ts'
import './api-server/lease.ts'
import './api-server/pod-templates.ts'
import './api-server/reflector.ts'
import './api-server/registry-source.ts'
import './api-server/rendered-children.ts'
