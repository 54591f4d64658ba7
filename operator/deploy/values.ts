/** The values of the Helm chart. values.yaml, its schema and the table of the README are made from this list. */

import { canonicalYaml } from '../render/object/canonical.ts'
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

const findDefault = (value: Value): unknown =>
  value.properties
    ? Object.fromEntries(Object.entries(value.properties).map(([name, part]) => [name, findDefault(part)]))
    : value.default

const findValue = (name: string, value: Value, group: string) => (name === 'apiGroup' ? group : findDefault(value))

const comment = (text: string) => `# ${text}\n`

function partsYaml(name: string, { properties = {} }: Value): string {
  const parts = Object.entries(properties).map(([part, value]) =>
    `${comment(value.description)}${canonicalYaml({ [part]: findDefault(value) })}`.replace(/^(?=.)/gm, '  '),
  )
  return `${name}:\n${parts.join('')}`
}

/** Returns the defaults, each under a comment that explains it. */
export const formatValuesYaml = (group: string): string =>
  Object.entries(values)
    .map(([name, value]) => {
      const text = value.properties ? partsYaml(name, value) : canonicalYaml({ [name]: findValue(name, value, group) })
      return `\n${comment(value.description)}${text}`
    })
    .join('')

const closeObject = ({ properties, ...rest }: Value): object =>
  properties ? { ...rest, additionalProperties: false, properties: mapValues(properties) } : rest

const mapValues = (some: Readonly<Record<string, Value>>) =>
  Object.fromEntries(Object.entries(some).map(([name, value]) => [name, closeObject(value)]))

/** Returns the JSON Schema of the values, by which Helm refuses misspelt names and wrong types. */
export const schema = (): string =>
  `${JSON.stringify(
    {
      $schema: 'http://json-schema.org/draft-07/schema#',
      title: 'Values of the chart portico',
      type: 'object',
      additionalProperties: false,
      properties: {
        ...mapValues(values),
        global: { description: 'Values that Helm passes to every subchart.', type: 'object' },
      },
      // The same rule as the command's: a label must not grant anybody the nodes.
      anyOf: [
        { properties: { installation: { maxLength: 0 } } },
        { properties: { podTemplate: { const: 'baseline' } } },
        { properties: { namespaces: { minItems: 1 } } },
      ],
    },
    null,
    2,
  )}\n`

const cell = (text: string) => text.replaceAll('|', '\\|')

const rows = (some: Readonly<Record<string, Value>>, group: string, above = ''): string[] =>
  Object.entries(some).flatMap(([name, value]) =>
    value.properties
      ? rows(value.properties, group, `${above}${name}.`)
      : [
          `| \`${above}${name}\` | ${cell(value.description)} | \`${cell(JSON.stringify(findValue(above + name, value, group)))}\` |`,
        ],
  )

const formatValuesTable = (group: string): string =>
  ['| value | meaning | default |', '|---|---|---|', ...rows(values, group)].join('\n')

export const formatReadme = (group: string): string => `<!-- Generated by \`make generate\`; do not edit. -->
# Portico's chart

Installs the operator and its CustomResourceDefinitions; docs/install.md says how, and how to remove it.

\`\`\`sh
helm install portico operator/deploy/helm/portico --namespace portico-system --create-namespace
\`\`\`

Install one release per cluster, one per set of namespaces, or several of which all but one have a name
(\`installation\`). Each needs a namespace of its own: the operator's objects have fixed names, by which it finds its own
rights when it is removed.

${formatValuesTable(group)}
`

export const formatNotes = (): string => `Portico {{ .Chart.AppVersion }} is installed in {{ .Release.Namespace }}.
It manages {{ if .Values.namespaces }}the namespaces {{ join ", " .Values.namespaces }}{{ else }}all namespaces{{ end }}; the kinds are of the API group {{ .Values.apiGroup }}.
{{- with .Values.installation }}
Of these it manages the objects with the label {{ $.Values.apiGroup }}/installation={{ . }}.
{{- end }}
{{- if eq (int .Values.replicas) 0 }}

No operator runs: replicas is 0.
{{- end }}
{{- if not .Values.crds.install }}

This release does not install the CustomResourceDefinitions. The operator waits until they exist:
  portico crds --group {{ .Values.apiGroup }} | kubectl apply --server-side -f -
{{- end }}

Check that it runs, and list the objects:
  kubectl rollout status deployment/portico-operator --namespace {{ .Release.Namespace }}
  kubectl get mcpservers.{{ .Values.apiGroup }},virtualmcpservers.{{ .Values.apiGroup }} --all-namespaces

Uninstall it while it runs, so that it removes its finalizers:
  helm uninstall {{ .Release.Name }} --namespace {{ .Release.Namespace }}
{{- if and .Values.crds.install .Values.crds.keep }}
The CustomResourceDefinitions stay, with all of their objects (crds.keep).
{{- end }}
`
