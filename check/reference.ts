/** Generates docs/reference from the schemas, commands, error codes and Helm values that the code checks and serves. */
import { formatHelp, type Program } from '../cli/command.ts'
import { portico } from '../cli/dispatch.ts'
import { program as kubectlPortico } from '../cli/kubectl/index.ts'
import { kinds } from '../crds/index.ts'
import { findValueSchema, type SchemaNode, schemaChildren } from '../crds/walk.ts'
import { gatewayConfigSchema } from '../dataplane/config/gateway.ts'
import { registryConfigSchema } from '../dataplane/config/registry.ts'
import { errorTable } from '../dataplane/server/errors.ts'
import { type Value, values } from '../operator/deploy/values.ts'
import { conditionTypes, fileReasons, type Reason, reasons } from '../operator/model/reasons.ts'

/** A schema of a configuration file. Unlike schemas of kinds it may have a union. */
type FileNode = SchemaNode & {
  readonly minLength?: number
  readonly minItems?: number
  readonly minimum?: number
  readonly maximum?: number
}

const code = (text: string) => `\`${text}\``
const cell = (text: string) => text.replaceAll('|', '\\|').replaceAll('\n', ' ')

/** The parts of a reference, which are the same everywhere and get no section. */
const REFERENCES = {
  secret: '`{name, key}` of a Secret',
  configMap: '`{name, key}` of a ConfigMap',
  caBundle: '`configMapRef: {name, key, optional}`',
  nothing: '`{name}`',
} as const

const isReference = (node: FileNode): node is FileNode & Required<Pick<FileNode, 'mountedAs'>> =>
  node.mountedAs !== undefined && node.properties !== undefined

function formatType(node: FileNode): string {
  if (isReference(node)) return REFERENCES[node.mountedAs]
  if (node.enum !== undefined) return node.enum.map((value) => code(value === '' ? '""' : value)).join(', ')
  if (node['x-kubernetes-int-or-string']) return 'integer or text'
  const values = findValueSchema(node)
  if (values !== undefined) return `map of ${formatType(values)}`
  if (node.items !== undefined) return `list of ${formatType(node.items)}`
  if (node.type === 'string') return 'text'
  if (node.type === 'boolean') return '`true`, `false`'
  return node.type ?? 'anything'
}

/** Describes the bounds of a value. */
function describeLimits(node: FileNode): readonly string[] {
  const { minLength, maxLength, minItems, maxItems, maxProperties, minimum, maximum, pattern, items } = node
  const between = (from: number | undefined, to: number | undefined, unit: string) =>
    from === undefined && to === undefined
      ? []
      : [
          [from !== undefined && `at least ${from}`, to !== undefined && `at most ${to}`].filter(Boolean).join(', ') +
            unit,
        ]
  return [
    ...between(minimum, maximum, ''),
    ...between(minLength, maxLength, ' characters'),
    ...between(minItems, maxItems, ' items'),
    ...between(undefined, maxProperties, ' keys'),
    ...(pattern === undefined ? [] : [`matches ${code(pattern)}`]),
    ...(items !== undefined && items.properties === undefined
      ? describeLimits(items).map((limit) => `each ${limit}`)
      : []),
  ]
}

function findRefusal(node: FileNode): string | undefined {
  if (typeof node.readBy === 'object') return node.readBy.refused
  const [reason, ...others] = schemaChildren(node).map(findRefusal)
  return others.every((other) => other === reason) ? reason : undefined
}

function formatDescription(node: FileNode): string {
  const { description = '', refusedValues = {}, refersTo } = node
  const reason = findRefusal(node)
  const refused = reason === undefined ? [] : [`**Refused**: ${reason}.`]
  const values = Object.entries(refusedValues).map(([value, reason]) => `${code(value)} is **refused**: ${reason}.`)
  const names = refersTo === undefined ? [] : [`The name of a ${[refersTo].flat().join(' or ')}.`]
  return [description, ...names, ...refused, ...values].filter((text) => text !== '').join(' ')
}

const formatDefault = ({ default: value }: FileNode) => (value === undefined ? '' : code(JSON.stringify(value)))

function row(name: string, node: FileNode, isRequired: boolean): string {
  const cells = [
    code(name),
    formatType(node),
    isRequired && node.default === undefined ? '**required**' : formatDefault(node),
    describeLimits(node).join('; '),
    formatDescription(node),
  ]
  return `| ${cells.map(cell).join(' | ')} |`
}

/** Returns the object that holds a field's own fields, and the suffix of its path: `[]` for a list, `.*` for a map. */
function inner(node: FileNode): readonly [suffix: string, object: FileNode] | undefined {
  if (isReference(node)) return undefined
  if (node.properties !== undefined) return Object.keys(node.properties).length === 0 ? undefined : ['', node]
  const child = node.items ?? findValueSchema(node)
  const found = child && inner(child)
  return found && [`${node.items === undefined ? '.*' : '[]'}${found[0]}`, found[1]]
}

function formatSection(path: string, node: FileNode): readonly string[] {
  const fields = Object.entries(node.properties ?? {}).sort(([a], [b]) => (a < b ? -1 : 1))
  const required = new Set(node.required)
  const rules = (node['x-kubernetes-validations'] ?? []).map(({ message }) => `- ${message}`)
  const below = fields.flatMap(([name, child]) => {
    const found = inner(child)
    return found === undefined || findRefusal(child) !== undefined
      ? []
      : formatSection(path === '' ? `${name}${found[0]}` : `${path}.${name}${found[0]}`, found[1])
  })
  return [
    ...(path === '' ? [] : [`## ${code(path)}`, '', ...(node.description ? [node.description, ''] : [])]),
    '| Field | Type | Default | Limits | |',
    '|---|---|---|---|---|',
    ...fields.map(([name, child]) => row(name, child, required.has(name))),
    '',
    ...(rules.length === 0 ? [] : ['Rules:', '', ...rules, '']),
    ...below,
  ]
}

const GENERATED = '<!-- Written by `npm run generate` from the schemas: edit these. -->'
const GENERATED_FROM_CODE = '<!-- Written by `npm run generate` from the code: edit that. -->'

function formatKindPage({ kind, plural, shortNames, description, spec }: (typeof kinds)[keyof typeof kinds]): string {
  const names = shortNames.length === 0 ? '' : `, short ${shortNames.map(code).join(', ')}`
  return [
    GENERATED,
    '',
    `# ${kind}`,
    '',
    description,
    '',
    `\`kubectl get ${plural}\`${names}. \`kubectl explain ${plural}.spec\` shows the same fields in a cluster.`,
    '',
    ...formatSection('spec', spec as FileNode),
  ].join('\n')
}

function formatFilePage(role: string, schema: FileNode): string {
  const intro = `What \`portico serve ${role} --config FILE\` reads, as YAML or JSON. In a cluster the operator writes it. Paths are relative to the folder of the file.`
  const title = `# The configuration file of a ${role}`
  return [GENERATED, '', title, '', intro, '', '## Top level', '', ...formatSection('', schema)].join('\n')
}

/** Returns the page of all commands: the help text of each. */
async function formatCommandsPage(): Promise<string> {
  const sections = async ({ name, about, commands }: Program) => {
    const parts = Object.entries(commands).map(async ([command, { load }]) => {
      const help = formatHelp((await load()).command, name)
      return [`### ${name} ${command}`, '', '```text', help.trimEnd(), '```', '']
    })
    return [`## ${code(name)}`, '', about.replaceAll('\n', ' '), '', ...(await Promise.all(parts)).flat()]
  }
  return [
    GENERATED_FROM_CODE,
    '',
    '# Commands',
    '',
    'The help text of every command. Exit codes: 0 success, 1 a finding or failure, 2 wrong usage.',
    '',
    ...(await sections(portico)),
    ...(await sections(kubectlPortico)),
  ].join('\n')
}

function formatErrorsPage(): string {
  const rows = Object.entries(errorTable)
    .sort(([a], [b]) => (a < b ? -1 : 1))
    .map(([name, { http, rpc, text }]) => `| ${code(name)} | ${http} | ${rpc} | ${cell(text)} |`)
  return [
    GENERATED_FROM_CODE,
    '',
    '# Error codes',
    '',
    'Every error that a gateway or a registry answers with has one of these codes. A code is stable. A registry answers with the HTTP status and the body `{"error": "CODE", "message": "TEXT"}`. The MCP endpoint answers with a JSON-RPC error of the JSON-RPC code; with the HTTP status in the stateless era. The log has the code and the detail under the same request id (`X-Request-Id`).',
    '',
    '| Code | HTTP | JSON-RPC | Text |',
    '|---|---|---|---|',
    ...rows,
  ].join('\n')
}

function formatConditionsPage(): string {
  const row = ([name, { means, next }]: [string, Reason]) => `| ${code(name)} | ${cell(means)} | ${cell(next ?? '')} |`
  const byName = <T>(entries: Readonly<Record<string, T>>) =>
    Object.entries(entries).sort(([a], [b]) => (a < b ? -1 : 1))
  return [
    GENERATED_FROM_CODE,
    '',
    '# Conditions and reasons',
    '',
    'What `kubectl describe` shows of an object, and what to do about it. The message of a condition names the field or object that it is about. Events have the same reasons.',
    '',
    '## Conditions',
    '',
    '| Condition | |',
    '|---|---|',
    ...Object.entries(conditionTypes).map(([name, text]) => `| ${code(name)} | ${cell(text)} |`),
    '',
    '## Reasons of conditions and events',
    '',
    '| Reason | It means | What to do |',
    '|---|---|---|',
    ...byName(reasons).map(row),
    '',
    '## Reasons of findings in files',
    '',
    '`portico validate`, `render` and `run` print these beside those above.',
    '',
    '| Reason | It means | What to do |',
    '|---|---|---|',
    ...byName(fileReasons).map(row),
  ].join('\n')
}

function formatValueRows(all: Readonly<Record<string, Value>>, path = ''): readonly string[] {
  return Object.entries(all).flatMap(([name, { description, default: fallback, enum: choices, properties }]) => {
    const isGroup = properties !== undefined
    const accepted = Array.isArray(choices)
      ? ` One of ${choices.map((one) => code(JSON.stringify(one))).join(', ')}.`
      : ''
    const shown = isGroup ? '' : code(JSON.stringify(fallback ?? null))
    const row = `| ${code(`${path}${name}`)} | ${shown} | ${cell(description + accepted)} |`
    return isGroup ? [row, ...formatValueRows(properties, `${path}${name}.`)] : [row]
  })
}

const formatHelmPage = (): string =>
  [
    GENERATED_FROM_CODE,
    '',
    '# Values of the Helm chart',
    '',
    'What `helm install` takes with `--set` or `--values`. A value that is not listed is refused.',
    '',
    '| Value | Default | |',
    '|---|---|---|',
    ...formatValueRows(values),
  ].join('\n')

const tidy = (text: string) => `${text.trimEnd()}\n`

export async function referencePages(): Promise<ReadonlyMap<string, string>> {
  const all = Object.values(kinds)
  const pages = new Map<string, string>(
    all.map((kind) => [`${kind.kind.toLowerCase()}.md`, tidy(formatKindPage(kind))]),
  )
  for (const [role, schema] of Object.entries({ gateway: gatewayConfigSchema, registry: registryConfigSchema }))
    pages.set(`${role}-file.md`, tidy(formatFilePage(role, schema as FileNode)))
  pages.set('commands.md', tidy(await formatCommandsPage()))
  pages.set('errors.md', tidy(formatErrorsPage()))
  pages.set('conditions.md', tidy(formatConditionsPage()))
  pages.set('helm-values.md', tidy(formatHelmPage()))
  const links = [
    ...all.map(({ kind, description }) => `- [${kind}](${kind.toLowerCase()}.md): ${description}`),
    '- [The configuration file of a gateway](gateway-file.md)',
    '- [The configuration file of a registry](registry-file.md)',
    '- [Commands](commands.md): the help text of each',
    '- [Error codes](errors.md)',
    '- [Values of the Helm chart](helm-values.md)',
    '- [Conditions and reasons](conditions.md), with what to do about each',
    '- [Metrics](../telemetry.md) and [audit events](../audit.md)',
  ]
  pages.set(
    'README.md',
    tidy(
      [
        GENERATED,
        '',
        '# Reference',
        '',
        'Every field of every kind and of the configuration files: its type, default and limits, and the rules that span fields. Every command, error code and value of the Helm chart. All are there since version 0.1.',
        '',
        ...links,
      ].join('\n'),
    ),
  )
  return pages
}
