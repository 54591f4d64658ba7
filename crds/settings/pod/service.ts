import { type CelRule, choice, defaulted, list, object, Type, text } from '../schema.ts'
import { CIDR, KEY_LENGTH, LABEL_KEY } from './network-peer.ts'

const RANGES = 64

export const sessionAffinity = defaulted(
  choice('operator', 'Session affinity of the Service.', ['ClientIP', 'None'], { default: 'ClientIP' }),
)

export const serviceType = defaulted(
  choice('operator', 'Type of the Service.', ['ClusterIP', 'NodePort', 'LoadBalancer'], { default: 'ClusterIP' }),
)

export const service = Type.Optional(
  object('Further fields of the Service. The operator leaves absent fields of the Service as they are.', {
    externalTrafficPolicy: Type.Optional(
      choice(
        'operator',
        'Local: traffic from outside goes to pods of the node that it comes to, and keeps its source address. For the types NodePort and LoadBalancer.',
        ['Cluster', 'Local'],
      ),
    ),
    loadBalancerSourceRanges: Type.Optional(
      list(
        'Networks whose clients the load balancer accepts. For the type LoadBalancer.',
        text('operator', 'A network, such as `192.0.2.0/24`.', { max: 64, pattern: CIDR }),
        { min: 1, max: RANGES },
      ),
    ),
    loadBalancerClass: Type.Optional(
      text(
        'operator',
        'Class of the load balancer, such as `example.com/internal`. For the type LoadBalancer. Kubernetes refuses to change or remove it while the type stays: delete the Service to set another one.',
        { min: 1, max: KEY_LENGTH, pattern: LABEL_KEY },
      ),
    ),
    ipFamilyPolicy: Type.Optional(
      choice('operator', 'Addresses of one IP family or of both.', [
        'SingleStack',
        'PreferDualStack',
        'RequireDualStack',
      ]),
    ),
  }),
)

const needs = (field: string, types: readonly string[]): CelRule => ({
  rule: `!has(self.service) || !has(self.service.${field}) || self.serviceType in [${types.map((type) => `'${type}'`).join(', ')}]`,
  message: `service.${field} needs serviceType ${types.join(' or ')}`,
})

/** Rules over the fields above for every kind with pods. The API server refuses a Service that breaks them. */
export const serviceRules: readonly CelRule[] = [
  needs('externalTrafficPolicy', ['NodePort', 'LoadBalancer']),
  needs('loadBalancerSourceRanges', ['LoadBalancer']),
  needs('loadBalancerClass', ['LoadBalancer']),
]
