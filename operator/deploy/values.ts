/** The values of the Helm chart. values.yaml, its schema and the table of the README are made from this list. */
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

const imageValues: Readonly<Record<string, Value>> = {
  repository: {
    description: 'Repository of the image, without tag.',
    type: 'string',
    minLength: 1,
    default: 'portico',
  },
  tag: { description: 'Tag of the image. Empty: the version of the chart.', type: 'string', default: '' },
  digest: {
    description: 'Digest of the image (sha256:…). It wins over the tag.',
    type: 'string',
    pattern: '^(sha256:[0-9a-f]{64})?$',
    default: '',
  },
  pullPolicy: {
    description: 'When nodes pull the image. Empty: the default of Kubernetes.',
    enum: ['', 'Always', 'IfNotPresent', 'Never'],
    type: 'string',
    default: '',
  },
}

export const values: Readonly<Record<string, Value>> = {
  apiGroup: {
    description: 'API group of the CRDs, the RBAC rules and the objects that the operator manages.',
    type: 'string',
    maxLength: 253,
    pattern: '^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)+$',
    default: 'portico.dev',
  },
  namespaces: {
    description:
      'Namespaces to manage, with a Role in each and no ClusterRole. Empty: all namespaces, with a ClusterRole, which can read every Secret.',
    type: 'array',
    items: { type: 'string', pattern: LABEL },
    uniqueItems: true,
    default: [],
  },
  installation: {
    description:
      'Name of this installation. It manages the objects whose label <apiGroup>/installation has this value. Empty: the objects without the label.',
    type: 'string',
    pattern: `^(${INSTALLATION.source.slice(1, -1)})?$`,
    default: '',
  },
  crds: {
    description: 'The CustomResourceDefinitions.',
    type: 'object',
    properties: {
      install: {
        description: 'Whether this release installs the CRDs. Set false if somebody else installs them first.',
        type: 'boolean',
        default: true,
      },
      keep: {
        description: 'Whether the CRDs stay, with all of their objects, when the release is uninstalled.',
        type: 'boolean',
        default: true,
      },
    },
  },
  image: { description: 'The image of operator and console.', type: 'object', properties: imageValues },
  dataPlaneImage: {
    description: 'Image of the data plane, with tag or digest. Empty: the image of the operator.',
    type: 'string',
    default: '',
  },
  imagePullSecrets: { description: 'Secrets with which nodes pull the image, as {name: …}.', ...objects },
  replicas: {
    description: 'Number of operator pods. One works and the others wait; 0 stops the operator.',
    type: 'integer',
    minimum: 0,
    default: DEFAULT_REPLICAS,
  },
  workers: {
    description: 'Number of objects that are reconciled at a time; null: the default of the operator.',
    type: ['integer', 'null'],
    minimum: 1,
    maximum: 64,
    default: null,
  },
  podTemplate: {
    description:
      'The limit for podTemplateSpec: the Pod Security level baseline, or any, which gives the nodes to everybody who may write a workload.',
    type: 'string',
    enum: ['baseline', 'any'],
    default: 'baseline',
  },
  podUsers: {
    description:
      'Users and groups of the pods of workloads: fixed, or assigned by the platform (OpenShift). For the operator’s own pods use runAsUser.',
    type: 'string',
    enum: ['fixed', 'platform'],
    default: 'fixed',
  },
  adminFrom: {
    description:
      'Peers that may reach the admin listeners of pods (/metrics, /status) besides the operator. Each is a namespace, NAMESPACE/LABEL=VALUE or a CIDR.',
    type: 'array',
    items: { type: 'string', minLength: 1 },
    default: [],
  },
  admission: {
    description: 'The admission webhook. It warns users about problems of the objects that they apply.',
    type: 'object',
    properties: {
      enabled: {
        description:
          'Whether the webhook is installed. It refuses nothing, and objects are written without warnings while it can’t be reached. It makes its own certificate.',
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
        description:
          'Whether the console is installed. Its pod has no ServiceAccount token, and its account has no Role.',
        type: 'boolean',
        default: false,
      },
      config: {
        description:
          'Configuration file of the console. Empty: one for `kubectl port-forward service/portico-console 4480:80`, with pasted tokens.',
        type: 'object',
        default: {},
      },
      secretName: {
        description:
          'Secret that is mounted at /etc/portico/secrets, for files that the configuration names. It may be missing.',
        type: 'string',
        minLength: 1,
        default: CONSOLE_NAME,
      },
      replicas: {
        description:
          'Number of console pods. Several need a common key (config.session.keyFiles), or a proxy that logs users in.',
        type: 'integer',
        minimum: 0,
        default: 1,
      },
      resources: { description: 'Resources of the console’s container.', type: 'object', default: CONSOLE_RESOURCES },
      viewerRoles: {
        description:
          'Whether the ClusterRoles portico-viewer (added to view, edit and admin) and portico-usage-viewer are installed.',
        type: 'boolean',
        default: true,
      },
    },
    // A session belongs to one replica unless all have a common key.
    anyOf: [
      { properties: { replicas: { maximum: 1 } } },
      { properties: { config: { required: ['session'], properties: { session: { required: ['keyFiles'] } } } } },
      { properties: { config: { required: ['login'], properties: { login: { required: ['proxy'] } } } } },
    ],
  },
  logLevel: {
    description: 'Log level of the operator.',
    type: 'string',
    enum: ['debug', 'info', 'warn', 'error'],
    default: 'info',
  },
  resources: { description: 'Resources of the operator’s container.', type: 'object', default: DEFAULT_RESOURCES },
  runAsUser: {
    description: 'User id of the pods of operator and console; null leaves the choice to the platform (OpenShift).',
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
  tolerations: { description: 'Tolerations of the pods of operator and console.', ...objects },
  affinity: { description: 'Affinities of the operator’s pods.', ...anything },
  topologySpreadConstraints: { description: 'Rules by which the operator’s pods are spread.', ...objects },
  priorityClassName: { description: 'PriorityClass of the operator’s pods.', type: 'string', default: '' },
}

/** Returns the default of a value, or the defaults of its parts. */
export const findDefault = (value: Value): unknown =>
  value.properties
    ? Object.fromEntries(Object.entries(value.properties).map(([name, part]) => [name, findDefault(part)]))
    : value.default
