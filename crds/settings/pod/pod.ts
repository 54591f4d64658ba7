/** Settings of the pods and Services that the operator renders. */
import { limits } from '../limits.ts'
import {
  countOrPercentage,
  defaulted,
  flag,
  integer,
  list,
  map,
  object,
  objectName,
  raw,
  Type,
  text,
} from '../schema.ts'
import { networkPeers } from './network-peer.ts'
import { service, serviceType, sessionAffinity } from './service.ts'

const environment = (description: string) =>
  list(
    description,
    object('An environment variable.', {
      name: text('operator', 'Name of the variable.', { min: 1, max: limits.name }),
      value: text('operator', 'Value of the variable.', { max: limits.program }),
    }),
    { type: { map: ['name'] }, max: limits.process },
  )

export const env = Type.Optional(environment('Environment variables of the MCP server.'))

export const args = Type.Optional(
  list('Arguments of the MCP server.', text('operator', 'An argument.', { max: limits.program }), {
    max: limits.process,
  }),
)

export const port = (description: string) => integer('operator', description, { minimum: 1, maximum: 65535 })

const quantities = (description: string) =>
  map(
    description,
    text('operator', 'A Kubernetes quantity such as `500m` or `256Mi`.', {
      max: 32,
      pattern: '^[0-9]+(\\.[0-9]+)?(m|k|M|G|T|P|E|Ki|Mi|Gi|Ti|Pi|Ei|[eE][0-9]+)?$',
    }),
    { max: 16 },
  )

export const resources = (description: string) =>
  Type.Optional(
    object(description, {
      limits: Type.Optional(quantities('Upper bounds, by resource name.')),
      requests: Type.Optional(quantities('Reserved amounts, by resource name.')),
    }),
  )

export const podTemplateSpec = Type.Optional(
  raw(
    'operator',
    'A partial pod template, merged over the rendered one. The containers are named `mcp` (the MCP server) and `portico`, or `vmcp` in the pods of a VirtualMCPServer.',
  ),
)

export const imagePullSecrets = Type.Optional(
  list(
    'Secrets for pulling images.',
    object('A Secret, by name.', { name: objectName('operator', 'Name of the Secret.', { refersTo: 'Secret' }) }),
    { type: { map: ['name'] } },
  ),
)

export const serviceAccount = Type.Optional(
  objectName('operator', 'ServiceAccount of the pods. Absent: the operator creates one if it is needed.'),
)

const replicaCount = (description: string) => Type.Optional(integer('operator', description, { minimum: 0 }))

export const replicas = replicaCount('Number of pods. Absent: left to an autoscaler, beginning with one.')

export const backendReplicas = replicaCount(
  'Number of MCP server pods; must equal `replicas` because the server shares the pod of its proxy.',
)

const texts = (description: string) => map(description, text('operator', 'A value.', { max: limits.program }))

const metadataFields = {
  annotations: Type.Optional(texts('Annotations to add.')),
  labels: Type.Optional(texts('Labels to add.')),
}

const metadata = (description: string) => object(description, metadataFields)

export const resourceOverrides = Type.Optional(
  object('Metadata and settings for the rendered objects.', {
    proxyDeployment: Type.Optional(
      object('The Deployment or StatefulSet.', {
        ...metadataFields,
        env: Type.Optional(environment('Environment variables of the data plane’s container.')),
        imagePullSecrets,
        podTemplateMetadataOverrides: Type.Optional(metadata('Metadata of the pods.')),
      }),
    ),
    proxyService: Type.Optional(metadata('The Service.')),
  }),
)

export const networkPolicy = Type.Optional(
  object(
    'The NetworkPolicy of the pods.',
    {
      enabled: defaulted(
        flag('operator', 'Create the policy: only the data plane’s own ports of the pods can be reached.', {
          default: true,
        }),
      ),
      ingressFrom: Type.Optional(networkPeers),
    },
    { rules: [{ rule: 'self.enabled || !has(self.ingressFrom)', message: 'ingressFrom needs the policy enabled' }] },
  ),
)

const LABEL = '[a-z0-9]([-a-z0-9]*[a-z0-9])?'

const httpRoute = Type.Optional(
  object('A Gateway API HTTPRoute to the Service.', {
    parentRefs: list(
      'Gateways that carry the route.',
      object('A Gateway.', {
        name: text('operator', 'Name of the Gateway.', { min: 1, max: limits.name }),
        namespace: Type.Optional(
          text('operator', 'Its namespace. Absent: that of this object.', {
            max: limits.label,
            pattern: `^${LABEL}$`,
          }),
        ),
        sectionName: Type.Optional(
          text('operator', 'Its listener.', { max: limits.name, pattern: `^${LABEL}(\\.${LABEL})*$` }),
        ),
      }),
      { min: 1, max: 8 },
    ),
    hostnames: Type.Optional(
      list(
        'Host names of the route: the workload answers to them, and its public URL is that of the first one, by https. Absent: those of the listeners; `allowedHosts` then says to which of them the workload answers.',
        text('operator', 'A host name without a wildcard.', {
          min: 1,
          max: limits.name,
          pattern: `^${LABEL}(\\.${LABEL})*$`,
        }),
        { max: 16 },
      ),
    ),
  }),
)

const disruption = Type.Optional(
  object(
    'The PodDisruptionBudget. Absent: one pod may be down if `replicas` is above 1; otherwise there is no budget. Without fields: the same as `maxUnavailable: 1`.',
    {
      maxUnavailable: Type.Optional(
        countOrPercentage('operator', 'Pods that may be down when nodes are drained, as a number or percentage.'),
      ),
      minAvailable: Type.Optional(
        countOrPercentage('operator', 'Pods that must stay when nodes are drained, as a number or percentage.'),
      ),
    },
    {
      rules: [
        {
          rule: '!(has(self.maxUnavailable) && has(self.minAvailable))',
          message: 'set maxUnavailable or minAvailable, not both',
        },
      ],
    },
  ),
)

export const podSettings = {
  podTemplateSpec,
  imagePullSecrets,
  serviceAccount,
  replicas,
  serviceType,
  service,
  sessionAffinity,
  networkPolicy,
  httpRoute,
  disruption,
}
