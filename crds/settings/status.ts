/** Parts of status. The operator writes them. Nobody reads them back as settings, so they carry no `readBy`. */
import { limits } from './limits.ts'
import { list, object, type TSchema, Type } from './schema.ts'

const statusText = (description: string, options: { min?: number; max?: number; pattern?: string } = {}) =>
  Type.String({
    description,
    maxLength: options.max ?? limits.text,
    ...(options.min === undefined ? {} : { minLength: options.min }),
    ...(options.pattern === undefined ? {} : { pattern: options.pattern }),
  })

const oneOf = <const V extends readonly string[]>(description: string, values: V) =>
  Type.Unsafe<V[number]>({ type: 'string', description, enum: [...values] })

const count = (description: string) => Type.Integer({ description, format: 'int32', minimum: 0 })

const time = (description: string) => Type.String({ description, format: 'date-time' })

/** Kubernetes API conventions, metav1.Condition; the limits are the spec's. */
const condition = object('One observation.', {
  type: statusText('Type of the condition, CamelCase or with a DNS-style prefix.', {
    max: 316,
    pattern:
      '^([a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])$',
  }),
  status: oneOf('Whether the condition holds.', ['True', 'False', 'Unknown']),
  observedGeneration: Type.Optional(
    Type.Integer({ description: 'Generation that the condition was based on.', format: 'int64', minimum: 0 }),
  ),
  lastTransitionTime: time('When the status of the condition last changed.'),
  reason: statusText('Reason for programs, CamelCase.', {
    min: 1,
    max: 1024,
    pattern: '^[A-Za-z]([A-Za-z0-9_,:]*[A-Za-z0-9_])?$',
  }),
  message: statusText('Explanation for people; may be empty.', { max: 32768 }),
})

const conditions = Type.Optional(
  list('Latest observations; always one of type `Ready`.', condition, {
    type: { map: ['type'] },
    max: limits.conditions,
  }),
)

const observedGeneration = Type.Optional(
  Type.Integer({ description: 'Latest generation that this status is about.', format: 'int64', minimum: 0 }),
)

export const status = <P extends Record<string, TSchema>>(properties: P) =>
  object('What the operator observed.', { conditions, observedGeneration, ...properties })

export const configStatus = <const K extends readonly string[], P extends Record<string, TSchema>>(
  referrers: K,
  properties: P,
) =>
  status({
    configHash: Type.Optional(statusText('`sha256:` and the hash of the spec’s canonical JSON.', { max: 128 })),
    configHashTime: Type.Optional(time('When `configHash` last changed. Absent if that was before this was recorded.')),
    referencingWorkloads: Type.Optional(
      list(
        'Objects that refer to this configuration, sorted by kind, then name.',
        object('One referrer.', {
          kind: oneOf('Kind of the referrer.', referrers),
          name: statusText('Name of the referrer.', { min: 1, max: limits.name }),
        }),
        { max: limits.statusNames },
      ),
    ),
    referencingWorkloadCount: Type.Optional(count('Number of referrers. The list may be cut.')),
    ...properties,
  })

export const workloadKinds = ['MCPServer', 'VirtualMCPServer', 'MCPRemoteProxy'] as const

const workloadParts = {
  phase: Type.Optional(
    oneOf('Short summary of the conditions.', ['Pending', 'Ready', 'Degraded', 'Failed', 'Stopped', 'Terminating']),
  ),
  message: Type.Optional(statusText('Explanation of the phase.', { max: 32768 })),
  url: Type.Optional(statusText('Address inside the cluster.', { max: limits.url })),
  externalUrl: Type.Optional(statusText('Address at the first host name of the HTTPRoute.', { max: limits.url })),
  replicas: Type.Optional(count('Number of pods that should run.')),
  readyReplicas: Type.Optional(count('Pods that are ready.')),
  configHash: Type.Optional(
    statusText('Hash of the data plane’s configuration file, as its `/status` shows it.', { max: 128 }),
  ),
}

export const workloadStatus = <P extends Record<string, TSchema>>(properties: P) =>
  status({ ...workloadParts, ...properties })

export { count, oneOf, statusText, time }
