import type { KindDeclaration } from '../../crds/define.ts'
import { crdFor } from '../../crds/structural.ts'
import packageJson from '../../package.json' with { type: 'json' }
import { formatAdmissionName, OPERATOR_NAME } from '../render/network/network.ts'
import { canonicalYaml } from '../render/object/canonical.ts'
import { ADMISSION_PORT, buildAdmissionObjects } from './admission.ts'
import {
  buildConsoleConfigMap,
  buildConsoleObjects,
  buildViewerRoles,
  CONSOLE_CONFIG,
  CONSOLE_NAME,
  CONSOLE_PEER,
  USAGE_VIEWER_ROLE,
  VIEWER_ROLE,
} from './console.ts'
import { HEADER } from './kustomize.ts'
import {
  buildClusterRights,
  buildDeployment,
  buildLeaseRights,
  buildNamespaceRights,
  buildServiceAccount,
  type Installation,
} from './objects.ts'
import { formatNotes, formatReadme, formatValuesYaml, schema } from './values.ts'

/** Puts code into the template's text: gets the line with the placeholder, returns its replacement. */
type Fill = (line: string, mark: string) => string

const MARK = /helm\d+place/g
const KEY = /^( *)([\w./-]+): helm\d+place$/
const SPREAD = /^( *)(?:- (helm\d+place)|helm\d+place: "")$/

/** Escapes text for a Helm template: braces become code that prints them. */
const escapeBraces = (yaml: string) => yaml.replaceAll('{{', '{{ "{{" }}')

const indent = (text: string, spaces: string) =>
  text
    .split('\n')
    // A line with only code may begin at any column.
    .map((line) => (line.startsWith('{{-') ? line : spaces + line))
    .join('\n')

/**
 * Makes a Helm template from objects. A placeholder is a string in the object (value, key or item) that becomes code
 * when the object is written.
 */
class Template {
  readonly #fills = new Map<string, Fill>()

  #place(fill: Fill): string {
    const mark = `helm${this.#fills.size}place`
    this.#fills.set(mark, fill)
    return mark
  }

  /** Returns a placeholder for a text: a scalar, which is quoted, or a part of one. */
  text(expression: string): string {
    return this.#place((line, mark) => {
      const isAll = new RegExp(`(?:: |- )${mark}$`).test(line)
      return line.replace(mark, () => (isAll ? `{{ ${expression} | quote }}` : `{{ ${expression} }}`))
    })
  }

  /** Returns a placeholder for code in place of a scalar or of a part of one, unquoted. */
  code(code: string): string {
    return this.#place((line, mark) => line.replace(mark, () => code))
  }

  /** Returns a placeholder for a value whose key is written only if the expression has a value. */
  optional(expression: string): string {
    return this.#place((line) => {
      const [, spaces = '', key] = KEY.exec(line) ?? wrong(line)
      const depth = spaces.length + 2
      return `{{- with ${expression} }}\n${spaces}${key}:\n  ${spaces}{{- toYaml . | nindent ${depth} }}\n{{- end }}`
    })
  }

  /** Returns a placeholder for lines of code, as a key (`{[lines(…)]: ''}`) or an item, with the same indent. */
  lines(code: string): string {
    return this.#place((line) => {
      const [, spaces = ''] = SPREAD.exec(line) ?? wrong(line)
      return indent(code, spaces)
    })
  }

  /** Returns a placeholder for the keys of a map from the expression, among other keys. */
  keys(expression: string): string {
    return this.#place((line) => {
      const [, spaces = ''] = SPREAD.exec(line) ?? wrong(line)
      return `{{- with ${expression} }}\n${spaces}{{- toYaml . | nindent ${spaces.length} }}\n{{- end }}`
    })
  }

  /** Writes the objects as the text of a template. */
  write(documents: readonly object[]): string {
    return documents.map((document) => this.#fillIn(escapeBraces(canonicalYaml(document)))).join('---\n')
  }

  #fillIn(yaml: string): string {
    const line = (text: string) =>
      (text.match(MARK) ?? []).reduce((now, mark) => (this.#fills.get(mark) ?? wrong(text))(now, mark), text)
    return yaml.split('\n').map(line).join('\n')
  }
}

function wrong(line: string): never {
  throw new TypeError(`no place for Helm's code: ${line}`)
}

const CHART = {
  apiVersion: 'v2',
  name: 'portico',
  description: packageJson.description,
  type: 'application',
  version: packageJson.version,
  appVersion: packageJson.version,
  // Native sidecars are on by default since this version; test/setup/kubernetes.ts has the same.
  kubeVersion: '>=1.29.0-0',
}

const IMAGE =
  '{{ $.Values.image.repository }}{{ with $.Values.image.digest }}@{{ . }}{{ else }}:{{ $.Values.image.tag | default $.Chart.AppVersion }}{{ end }}'

const ARGUMENTS = [
  ['with $.Values.installation', '--installation', '{{ . | quote }}'],
  ['range $.Values.namespaces', '--namespace', '{{ ternary "$(POD_NAMESPACE)" . (eq . $.Release.Namespace) | quote }}'],
  ['with $.Values.dataPlaneImage', '--image', '{{ . | quote }}'],
  ['with $.Values.workers', '--workers', '{{ . | quote }}'],
  ['if eq $.Values.podTemplate "any"', '--pod-template', 'any'],
  ['if eq $.Values.podUsers "platform"', '--pod-users', 'platform'],
  ['range $.Values.adminFrom', '--admin-from', '{{ . | quote }}'],
  ['if $.Values.console.enabled', '--admin-from', JSON.stringify(CONSOLE_PEER)],
  ['if $.Values.admission.enabled', '--admission', formatAdmissionName('{{ $.Release.Namespace }}')],
] as const

const KEEP = `{{- if $.Values.crds.keep }}
annotations:
  helm.sh/resource-policy: keep
{{- end }}`

const LOG_LEVEL = `{{- if ne $.Values.logLevel "info" }}
- name: PORTICO_LOG_LEVEL
  value: {{ $.Values.logLevel }}
{{- end }}`

const ADMISSION = `{{- if $.Values.admission.enabled }}
- ${JSON.stringify(ADMISSION_PORT)}
{{- end }}`

const SELECTOR = `{{- with $.Values.namespaces }}
namespaceSelector:
  matchExpressions:
    - {key: kubernetes.io/metadata.name, operator: In, values: {{ toJson . }}}
{{- end }}`

const OBJECTS = `objectSelector:
  matchExpressions:
{{- with $.Values.installation }}
    - {key: {{ $.Values.apiGroup }}/installation, operator: In, values: [{{ . | quote }}]}
{{- else }}
    - {key: {{ $.Values.apiGroup }}/installation, operator: DoesNotExist}
{{- end }}`

const OPERATOR = `${OPERATOR_NAME}{{ with $.Values.installation }}-for-{{ . }}{{ end }}`

function withPlaces(template: Template): Installation {
  const optional = (name: string) => ({ [name]: template.optional(`$.Values.${name}`) })
  return {
    group: template.text('$.Values.apiGroup'),
    name: template.code(OPERATOR),
    namespace: template.text('$.Release.Namespace'),
    image: template.code(IMAGE),
    replicas: template.code('{{ $.Values.replicas }}'),
    args: ARGUMENTS.map(([when, name, value]) => template.lines(`{{- ${when} }}\n- ${name}\n- ${value}\n{{- end }}`)),
    resources: template.optional('$.Values.resources'),
    runAsUser: optional('runAsUser'),
    more: {
      account: { annotations: template.optional('$.Values.serviceAccountAnnotations') },
      podMetadata: { annotations: template.optional('$.Values.podAnnotations') },
      podLabels: { [template.keys('$.Values.podLabels')]: '' },
      pod: {
        ...optional('imagePullSecrets'),
        ...optional('nodeSelector'),
        ...optional('tolerations'),
        ...optional('affinity'),
        ...optional('topologySpreadConstraints'),
        ...optional('priorityClassName'),
      },
      container: { imagePullPolicy: template.optional('$.Values.image.pullPolicy') },
      env: [template.lines(LOG_LEVEL)],
      ports: [template.lines(ADMISSION)],
    },
  }
}

const when = (condition: string, text: string) => `{{- ${condition} }}\n---\n${text}{{- end }}\n`

function rbac(kinds: readonly KindDeclaration[]): string {
  const template = new Template()
  const installation = withPlaces(template)
  const each = template.text('$namespace')
  return [
    template.write([buildServiceAccount(installation), ...buildLeaseRights(installation)]),
    when('if not $.Values.namespaces', template.write(buildClusterRights(kinds, installation))),
    when('range $namespace := $.Values.namespaces', template.write(buildNamespaceRights(kinds, installation, each))),
  ].join('')
}

function operator(): string {
  const template = new Template()
  return template.write([buildDeployment(withPlaces(template))])
}

function admission(kinds: readonly KindDeclaration[]): string {
  const template = new Template()
  const objects = buildAdmissionObjects(kinds, withPlaces(template), {
    [template.lines(SELECTOR)]: '',
    [template.lines(OBJECTS)]: '',
  })
  return `{{- if $.Values.admission.enabled }}\n${template.write(objects)}{{- end }}\n`
}

const CONSOLE_FILE = `{{- $config := $.Values.console.config | default (fromJson ${JSON.stringify(JSON.stringify(CONSOLE_CONFIG))}) }}
{{- $config = merge (dict "apiGroup" $.Values.apiGroup) $config }}
`
const NAMED = '{{ with $.Values.installation }}-for-{{ . }}{{ end }}'

/** The hash of the configuration rolls the pods when it changes: the console reads it once. */
const CONFIG_HASH = '{{ toYaml $config | sha256sum }}'

function consoleInPod(kinds: readonly KindDeclaration[]): string {
  const template = new Template()
  const { namespace, image, more } = withPlaces(template)
  const optional = (name: string) => ({ [name]: template.optional(`$.Values.${name}`) })
  const configMap = buildConsoleConfigMap(namespace, template.code('{{ toYaml $config | printf "%s\\n" | quote }}'))
  const objects = buildConsoleObjects({
    namespace,
    image,
    replicas: template.code('{{ $.Values.console.replicas }}'),
    resources: template.optional('$.Values.console.resources'),
    runAsUser: optional('runAsUser'),
    secretName: template.text('$.Values.console.secretName'),
    more: {
      podMetadata: { annotations: { [`${CONSOLE_NAME}/config`]: template.code(CONFIG_HASH) } },
      pod: {
        ...optional('imagePullSecrets'),
        ...optional('nodeSelector'),
        ...optional('tolerations'),
      },
      container: more?.container ?? {},
    },
  })
  const roles = buildViewerRoles(kinds, template.text('$.Values.apiGroup'), {
    viewer: template.code(`${VIEWER_ROLE}${NAMED}`),
    usageViewer: template.code(`${USAGE_VIEWER_ROLE}${NAMED}`),
  })
  return `{{- if $.Values.console.enabled }}\n${CONSOLE_FILE}${template.write([configMap, ...objects])}${when('if $.Values.console.viewerRoles', template.write(roles))}{{- end }}\n`
}

/** Returns CRDs as templates: files in a chart's crds/ can't use values and are never upgraded. */
function crds(kinds: readonly KindDeclaration[]): string {
  const template = new Template()
  const group = template.text('$.Values.apiGroup')
  const definitions = kinds
    .toSorted((one, other) => (one.plural < other.plural ? -1 : 1))
    .map((kind) => {
      const definition = crdFor(kind, group)
      return { ...definition, metadata: { ...definition.metadata, [template.lines(KEEP)]: '' } }
    })
  return `{{- if $.Values.crds.install }}\n${template.write(definitions)}{{- end }}\n`
}

/** Returns the Helm chart as files by path below its folder. */
export function buildChartFiles(kinds: readonly KindDeclaration[], group: string): Map<string, string> {
  return new Map([
    ['Chart.yaml', HEADER + canonicalYaml(CHART)],
    ['values.yaml', HEADER + formatValuesYaml(group)],
    ['values.schema.json', schema()],
    ['README.md', formatReadme(group)],
    ['templates/NOTES.txt', formatNotes()],
    ['templates/crds.yaml', crds(kinds)],
    ['templates/rbac.yaml', rbac(kinds)],
    ['templates/operator.yaml', operator()],
    ['templates/admission.yaml', admission(kinds)],
    ['templates/console.yaml', consoleInPod(kinds)],
  ])
}
