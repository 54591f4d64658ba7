/**
 * The values that users of the Helm chart may set. values.yaml, its schema and the table of the README are made from
 * this list.
 */
import { INSTALLATION } from '../render/object/object.ts'
import { CONSOLE_NAME, CONSOLE_RESOURCES } from './console.ts'
import { DEFAULT_REPLICAS, DEFAULT_RESOURCES, DEFAULT_USER, labels } from './objects.ts'

/** A value as JSON Schema (draft 7): each has a description, and a default or parts. */
export interface Value {
  readonly description: string
  readonly type: string | readonly string[]
  readonly default?: unknown
  readonly properties?: Readonly<Record<string, Value>>
  readonly [keyword: string]: unknown
}

const LABEL = '^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'
const strings = { type: 'object', additionalProperties: { type: 'string' }, default: {} }
const anything = { type: 'object', default: {} }
const objects = { type: 'array', items: { type: 'object' }, default: [] }

const imageOf: Readonly<Record<string, Value>> = {
  repository: {
    description: 'Where the image lies, without tag.',
    type: 'string',
    minLength: 1,
    default: 'portico',
  },
  tag: { description: 'Its tag; empty: the version of the chart.', type: 'string', default: '' },
  digest: {
    description: 'Its digest, sha256:…, which goes before the tag.',
    type: 'string',
    pattern: '^(sha256:[0-9a-f]{64})?$',
    default: '',
  },
  pullPolicy: {
    description: 'When nodes fetch it; empty: as Kubernetes has it.',
    enum: ['', 'Always', 'IfNotPresent', 'Never'],
    type: 'string',
    default: '',
  },
}

export const values: Readonly<Record<string, Value>> = {
  apiGroup: {
    description: 'API group of the kinds: of the CRDs, of the rights and of what the operator looks after.',
    type: 'string',
    maxLength: 253,
    pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$',
    default: 'portico.dev',
  },
  namespaces: {
    description:
      'Namespaces to look after, with a Role in each and no ClusterRole. Empty: all of the cluster, by a ClusterRole, which can read every Secret.',
    type: 'array',
    items: { type: 'string', pattern: LABEL },
    uniqueItems: true,
    default: [],
  },
  installation: {
    description:
      'Name of this installation, which looks after the objects with the label <apiGroup>/installation of this value; empty: after those without the label.',
    type: 'string',
    pattern: `^(${INSTALLATION.source.slice(1, -1)})?$`,
    default: '',
  },
  crds: {
    description: 'The CustomResourceDefinitions.',
    type: 'object',
    properties: {
      install: {
        description: 'Whether this release brings them; false where somebody else installs them beforehand.',
        type: 'boolean',
        default: true,
      },
      keep: {
        description: 'Whether they stay, with every object of theirs, when the release is uninstalled.',
        type: 'boolean',
        default: true,
      },
    },
  },
  image: { description: 'The image of operator and console.', type: 'object', properties: imageOf },
  dataPlaneImage: {
    description: 'The image of the data plane, whole; empty: the operator’s own.',
    type: 'string',
    default: '',
  },
  imagePullSecrets: { description: 'Secrets to fetch the image with, as {name: …}.', ...objects },
  replicas: {
    description: 'Pods of the operator, of which one works and the others wait; 0 stops it.',
    type: 'integer',
    minimum: 0,
    default: DEFAULT_REPLICAS,
  },
  workers: {
    description: 'Objects that are reconciled at a time; null: as the operator has it.',
    type: ['integer', 'null'],
    minimum: 1,
    maximum: 64,
    default: null,
  },
  podTemplate: {
    description:
      'What a podTemplateSpec may ask for: what the Pod Security level baseline allows, or any: whoever may write a workload then has the node.',
    type: 'string',
    enum: ['baseline', 'any'],
    default: 'baseline',
  },
  podUsers: {
    description:
      'Users and groups of the pods of workloads: fixed, or whatever the platform allots (OpenShift); for the operator’s own pods there is runAsUser.',
    type: 'string',
    enum: ['fixed', 'platform'],
    default: 'fixed',
  },
  adminFrom: {
    description:
      'Who may reach the admin listeners of pods (/metrics, /status) besides the operator: a namespace, NAMESPACE/LABEL=VALUE or a CIDR each.',
    type: 'array',
    items: { type: 'string', minLength: 1 },
    default: [],
  },
  admission: {
    description: 'The admission webhook, which warns whoever applies an object of what is wrong with it.',
    type: 'object',
    properties: {
      enabled: {
        description:
          'Whether there is one. It refuses nothing, and writes go on without it where it can’t be reached; its certificate is its own.',
        type: 'boolean',
        default: false,
      },
    },
  },
  console: {
    description: 'The console in a pod (docs/console.md): a web page for viewers, each with their own rights.',
    type: 'object',
    properties: {
      enabled: {
        description: 'Whether there is one. Its pod has no ServiceAccount token, and its account no Role.',
        type: 'boolean',
        default: false,
      },
      config: {
        description:
          'Its configuration file; empty: one for `kubectl port-forward service/portico-console 4480:80`, with pasted tokens.',
        type: 'object',
        default: {},
      },
      secretName: {
        description:
          'Secret whose files lie in /etc/portico/secrets, for what the configuration names; need not be there.',
        type: 'string',
        minLength: 1,
        default: CONSOLE_NAME,
      },
      replicas: {
        description: 'Its pods. Several need a common key (config.session.keyFiles), or a proxy that logs in.',
        type: 'integer',
        minimum: 0,
        default: 1,
      },
      resources: { description: 'Resources of its container.', type: 'object', default: CONSOLE_RESOURCES },
      viewerRoles: {
        description:
          'Whether the ClusterRoles portico-viewer (added to view, edit and admin) and portico-usage-viewer are made.',
        type: 'boolean',
        default: true,
      },
    },
    // A session is of one replica, unless they have a common key.
    anyOf: [
      { properties: { replicas: { maximum: 1 } } },
      { properties: { config: { required: ['session'], properties: { session: { required: ['keyFiles'] } } } } },
      { properties: { config: { required: ['login'], properties: { login: { required: ['proxy'] } } } } },
    ],
  },
  logLevel: {
    description: 'What the operator logs.',
    type: 'string',
    enum: ['debug', 'info', 'warn', 'error'],
    default: 'info',
  },
  resources: { description: 'Resources of the operator’s container.', type: 'object', default: DEFAULT_RESOURCES },
  runAsUser: {
    description: 'User of the pods of operator and console; null leaves the choice to the platform (OpenShift).',
    type: ['integer', 'null'],
    minimum: 1,
    default: DEFAULT_USER,
  },
  serviceAccountAnnotations: { description: 'Annotations of the operator’s ServiceAccount.', ...strings },
  podAnnotations: { description: 'Annotations of the operator’s pods.', ...strings },
  podLabels: {
    description: 'Further labels of the operator’s pods.',
    ...strings,
    propertyNames: { not: { enum: Object.keys(labels) } },
  },
  nodeSelector: { description: 'Labels of the nodes on which operator and console may run.', ...strings },
  tolerations: { description: 'Taints of nodes that operator and console bear.', ...objects },
  affinity: { description: 'Affinities of the operator’s pods.', ...anything },
  topologySpreadConstraints: { description: 'How the operator’s pods are spread.', ...objects },
  priorityClassName: { description: 'PriorityClass of the operator’s pods.', type: 'string', default: '' },
}

/** Returns the default of a value, or the defaults of its parts. */
export const defaultOf = (value: Value): unknown =>
  value.properties
    ? Object.fromEntries(Object.entries(value.properties).map(([name, part]) => [name, defaultOf(part)]))
    : value.default
