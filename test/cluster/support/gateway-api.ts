import type { ControlPlane } from './control-plane.ts'
import { eventually } from './eventually.ts'

/** Name of the CRD of HTTPRoutes. */
const HTTP_ROUTES = 'httproutes.gateway.networking.k8s.io'

/** The CRD of the Gateway API with the part of its structure that matters here. */
export async function installGatewayApi(plane: ControlPlane): Promise<void> {
  const anything = { type: 'object', 'x-kubernetes-preserve-unknown-fields': true }
  const crd = {
    apiVersion: 'apiextensions.k8s.io/v1',
    kind: 'CustomResourceDefinition',
    metadata: {
      name: HTTP_ROUTES,
      annotations: { 'api-approved.kubernetes.io': 'https://github.com/kubernetes-sigs/gateway-api/pull/2466' },
    },
    spec: {
      group: 'gateway.networking.k8s.io',
      scope: 'Namespaced',
      names: { kind: 'HTTPRoute', listKind: 'HTTPRouteList', plural: 'httproutes', singular: 'httproute' },
      versions: [
        {
          name: 'v1',
          served: true,
          storage: true,
          subresources: { status: {} },
          schema: { openAPIV3Schema: { type: 'object', properties: { spec: anything, status: anything } } },
        },
      ],
    },
  }
  plane.apply(crd)
  await eventually(() => plane.serves('gateway.networking.k8s.io', 'v1', ['httproutes']), 'routes are served')
}
