/** Files that commands read, by size: each as costly as we can make it. The size of an object is bounded by that of files. */

export interface ManifestInput {
  /** The largest size that is worth measuring: at the field's bound, or beyond it. */
  readonly most: number
  write(size: number): string
}

const repeat = (count: number, part: (index: number) => string, between = '') =>
  Array.from({ length: count }, (_, index) => part(index)).join(between)
const object = (kind: string, spec: string, metadata = 'name: a') =>
  `apiVersion: portico.dev/v1beta1\nkind: ${kind}\nmetadata: {${metadata}}\nspec: ${spec}\n`
const digest = (id: number) => `sha256:${id.toString(16).padStart(64, '0')}`
const tools = (filter: string) => object('MCPToolConfig', `{toolsFilter: [${filter}]}`)
const server = (fields: string) => object('MCPServer', `{image: x, transport: stdio, ${fields}}`)
const template = (spec: string) => server(`podTemplateSpec: {spec: {${spec}}}`)
const GROUP = object('MCPGroup', '{}', 'name: g')
const gateway = (fields: string) =>
  `${GROUP}---\n${object('VirtualMCPServer', `{groupRef: {name: g}, incomingAuth: {type: anonymous}, ${fields}}`)}`
const workflow = (fields: string) => object('VirtualMCPCompositeToolDefinition', `{name: t, description: d, ${fields}}`)
const step = (fields: string) => workflow(`steps: [{id: s, type: tool, tool: a.b, ${fields}}]`)
const entry = (name: string) =>
  object(
    'MCPServerEntry',
    '{groupRef: {name: g}, transport: streamable-http, remoteUrl: "https://a.example/mcp"}',
    name,
  )
/** The rules of a trusted issuer, with conditions over claims. */
const matchers = (conditions: readonly string[]) =>
  gateway(
    `authServerConfig: {issuer: "https://a.example", upstreamProviders: [], trustedIssuers: [{name: t, issuer: "https://b.example", subjectRules: [${conditions
      .map((condition, id) => `{name: r${id}, subject: "*", matcher: '${condition}'}`)
      .join()}]}]}`,
  )
const policies = (size: number, of: (id: number) => string) =>
  object('MCPAuthzConfig', `{type: cedarv1, config: {policies: [${repeat(size, (id) => `'${of(id)}'`, ',')}]}}`)

export const manifests: Readonly<Record<string, ManifestInput>> = {
  pins: {
    most: 10_000,
    write: (size) =>
      object(
        'MCPPin',
        `{targetRef: {kind: MCPServer, name: x}, tools: [${repeat(size, (id) => `{name: t${id}, digests: ["${digest(id)}"]}`, ',')}]}`,
      ),
  },
  'unknown fields': { most: 16_000, write: (size) => server(repeat(size, (id) => `k${id}: 1`, ',')) },
  'unknown fields behind an alias': {
    most: 16_000,
    write: (size) => `x: &a {${repeat(size, (id) => `k${id}: 1`, ',')}}\n${object('MCPToolConfig', '*a')}`,
  },
  'items of another type': { most: 16_000, write: (size) => tools(repeat(size, () => '1', ',')) },
  'words that are booleans': { most: 16_000, write: (size) => tools(repeat(size, () => 'yes', ',')) },
  'such words in objects of a List': {
    most: 4_000,
    write: (size) =>
      `apiVersion: v1\nkind: List\nitems:\n${repeat(size, (id) => `- {apiVersion: portico.dev/v1beta1, kind: MCPToolConfig, metadata: {name: a${id}}, spec: {toolsFilter: [on]}}\n`)}`,
  },
  objects: {
    most: 4_000,
    write: (size) => repeat(size, (id) => object('MCPToolConfig', '{toolsFilter: [a]}', `name: a${id}`), '---\n'),
  },
  'members of a group with a gateway': {
    most: 800,
    write: (size) => `${gateway('')}---\n${repeat(size, (id) => entry(`name: a${id}`), '---\n')}`,
  },
  'an object again and again': { most: 4_000, write: (size) => repeat(size, () => tools('a'), '---\n') },
  labels: {
    most: 16_000,
    write: (size) =>
      object('MCPToolConfig', '{toolsFilter: [a]}', `name: a, labels: {${repeat(size, (id) => `l${id}: v`, ',')}}`),
  },
  annotations: {
    most: 16_000,
    write: (size) =>
      object(
        'MCPToolConfig',
        '{toolsFilter: [a]}',
        `name: a, annotations: {${repeat(size, (id) => `l${id}: v`, ',')}}`,
      ),
  },
  'keys of a Secret': {
    most: 16_000,
    write: (size) =>
      `apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {${repeat(size, (id) => `k${id}: 1`, ',')}}\n`,
  },
  documents: { most: 16_000, write: (size) => repeat(size, () => 'a: 1\n', '---\n') },
  anchors: { most: 16_000, write: (size) => `x: [${repeat(size, (id) => `&a${id} 1`, ',')}]\n` },
  aliases: {
    most: 1_000,
    write: (size) => `x: &a {k: [${repeat(3_000, String, ',')}]}\ny: [${repeat(size, () => '*a', ',')}]\n`,
  },
  merges: { most: 1_000, write: (size) => `x: &a {k: 1}\ny: [${repeat(size, () => '{<<: *a}', ',')}]\n` },
  nesting: { most: 32_000, write: (size) => `x: ${'['.repeat(size)}${']'.repeat(size)}\n` },
  'keys that are maps': { most: 2_000, write: (size) => `x:\n  ${'? '.repeat(size)}a\n` },
  'keys that are lists': { most: 16_000, write: (size) => `x: {${repeat(size, (id) => `? [${id}] : 1`, ',')}}\n` },
  tags: { most: 8_000, write: (size) => `%TAG !t! tag:e,1:\n---\nx: [${repeat(size, (id) => `!t!a${id} 1`, ',')}]\n` },
  comments: {
    most: 32_000,
    write: (size) => object('MCPToolConfig', `\n  toolsFilter:\n${repeat(size, (id) => `    # c\n    - t${id}\n`)}`),
  },
  'variables of a server': {
    most: 8_000,
    write: (size) => server(`env: [${repeat(size, (id) => `{name: E${id}, value: v}`, ',')}]`),
  },
  'volumes of a pod template': {
    most: 4_000,
    write: (size) =>
      template(
        `volumes: [${repeat(size, (id) => `{name: v${id}, emptyDir: {}}`, ',')}], containers: [{name: mcp, volumeMounts: [${repeat(size, (id) => `{name: v${id}, mountPath: /v${id}}`, ',')}]}]`,
      ),
  },
  'containers of a pod template': {
    most: 4_000,
    write: (size) => template(`containers: [${repeat(size, (id) => `{name: c${id}, image: y}`, ',')}]`),
  },
  'labels of a pod template': {
    most: 8_000,
    write: (size) => server(`podTemplateSpec: {metadata: {labels: {${repeat(size, (id) => `k${id}: v`, ',')}}}}`),
  },
  'other fields of a pod template': {
    most: 8_000,
    write: (size) => template(repeat(size, (id) => `k${id}: 1`, ',')),
  },
  'arguments of a step': {
    most: 16_000,
    write: (size) => step(`arguments: {${repeat(size, (id) => `k${id}: a`, ',')}}`),
  },
  'templates in an argument': {
    most: 8_000,
    write: (size) => step(`arguments: {a: "${repeat(size, () => '{{.params.p}}')}"}`),
  },
  'templates that do not end': { most: 64_000, write: (size) => step(`arguments: {a: "${'{{'.repeat(size)}"}`) },
  'parameters of a workflow': {
    most: 4_000,
    write: (size) =>
      workflow(
        `parameters: {type: object, properties: {${repeat(size, (id) => `p${id}: {type: string}`, ',')}}}, steps: [{id: s, tool: a.b}]`,
      ),
  },
  'values that one may have': {
    most: 8_000,
    write: (size) =>
      workflow(
        `parameters: {type: object, properties: {p: {enum: [${repeat(size, (id) => `v${id}`, ',')}]}}}, steps: [{id: s, tool: a.b}]`,
      ),
  },
  'overrides of tools': {
    most: 16_000,
    write: (size) =>
      object('MCPToolConfig', `{toolsOverride: {${repeat(size, (id) => `t${id}: {name: u${id}}`, ',')}}}`),
  },
  globs: { most: 512, write: (size) => tools(repeat(size, (id) => `"*a*b*${id}"`, ',')) },
  'quantifiers over claims': {
    most: 16,
    write: (size) => matchers([nestMatcher(size)]),
  },
  'conditions in a row': { most: 400, write: (size) => matchers([repeat(size, () => 'claims.a == "b"', ' || ')]) },
  'rules of an issuer': {
    most: 64,
    write: (size) => matchers(Array.from({ length: size }, (_, id) => `claims.a.all(x, x.startsWith("${id}"))`)),
  },
  policies: {
    most: 1_000,
    write: (size) => policies(size, (id) => `permit(principal, action, resource == Tool::"${id}");`),
  },
  'conditions of a policy': {
    most: 4_000,
    write: (size) =>
      policies(1, () => `permit(principal, action, resource) when { ${repeat(size, () => 'true', ' && ')} };`),
  },
}

/** Quantifiers, each in the one before. */
function nestMatcher(depth: number): string {
  const names = Array.from({ length: depth }, (_, id) => `x${id}`)
  return `${names.map((name) => `claims.a.exists(${name}, `).join('')}true${')'.repeat(depth)}`
}
