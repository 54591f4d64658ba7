/** The API server's verdict on our kinds and on what is rendered, and its other clients: on one that has no controllers. */
import './api-server/cluster-issuer.ts'
import './api-server/crds.ts'
import './api-server/lease.ts'
import './api-server/pod-templates.ts'
import './api-server/reflector.ts'
import './api-server/registry-source.ts'
import './api-server/rendered-children.ts'
