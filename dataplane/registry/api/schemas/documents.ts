import Type, { type TSchema, type TSchemaOptions } from 'typebox'

/**
 * The schemas that a server document may name. All are checked by the rules of the newest. Before 2025-09-16 fields had
 * other names.
 */
const SCHEMA_DATES = ['2025-12-11', '2025-10-17', '2025-10-11', '2025-09-29', '2025-09-16'] as const

const schemaUrl = (date: string) => `https://static.modelcontextprotocol.io/schemas/${date}/server.schema.json`

const optional = <P extends Record<string, TSchema>>(fields: P) =>
  Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, Type.Optional(schema)]))
/** NUL breaks databases and the parsers of clients. */
const noNul = { pattern: '^[^\\u0000]*$', says: 'must not hold NUL' } as const
const text = (description: string, maxLength = 4096) => Type.String({ description, minLength: 1, maxLength, ...noNul })
const flag = (description: string) => Type.Boolean({ description })
const list = (items: TSchema, description?: string) =>
  Type.Array(items, { maxItems: 256, ...(description === undefined ? {} : { description }) })
const freeObject = (description: string) => Type.Unsafe<object>({ type: 'object', description })

/** A version is not `latest`, and no range such as `^1.2`, `>=1`, `1.x` or `1 || 2`. */
const VERSION = '^(?!latest$)(?![\\^~<>=])(?!.*\\|\\|)(?!.*\\s)(?!(.*\\.)?[xX*](\\.|$))[!-~\\u00a1-\\uffff]+$'
const NO_RANGE = 'must be one version without spaces: neither `latest` nor a range'
const oneVersion = (description: string, more: TSchemaOptions = {}) =>
  Type.String({ description, pattern: VERSION, says: NO_RANGE, minLength: 1, maxLength: 255, ...more })
const version = oneVersion('A version, best a semantic one; neither `latest` nor a range.', { examples: ['1.0.0'] })

export const serverName = (description: string) =>
  Type.String({
    description,
    pattern: '^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$',
    minLength: 3,
    maxLength: 200,
    examples: ['com.example/weather'],
  })

/** An object of one of several shapes, which the member `key` tells apart. */
const oneOf = (key: string, shapes: readonly object[]) =>
  Type.Unsafe<object>({ type: 'object', required: [key], discriminator: { propertyName: key }, oneOf: shapes })

const input = {
  description: Type.String({ maxLength: 4096, ...noNul }),
  isRequired: flag('A value is required.'),
  isSecret: flag('The value is a secret.'),
  format: Type.Enum(['string', 'number', 'boolean', 'filepath'], { type: 'string' }),
  value: Type.String({ description: 'Fixed value; `{name}` stands for a variable.', maxLength: 4096, ...noNul }),
  default: Type.String({ maxLength: 4096, ...noNul }),
  placeholder: Type.String({ maxLength: 4096, ...noNul }),
  choices: list(Type.String({ maxLength: 4096, ...noNul })),
}
const variables = Type.Unsafe<object>({ type: 'object', additionalProperties: Type.Object(optional(input)) })
const inputs = optional({ ...input, variables })
const keyed = Type.Object({ name: text('Name of the header or variable.', 255), ...inputs })

const argument = oneOf('type', [
  {
    type: 'object',
    description: 'A positional argument: `value`, or a hint of its meaning.',
    properties: {
      type: { const: 'positional' },
      valueHint: text('The meaning of the value.', 255),
      isRepeated: flag('It may be repeated.'),
      ...inputs,
    },
    anyOf: [{ required: ['value'] }, { required: ['valueHint'] }],
  },
  {
    type: 'object',
    description: 'By name: `--flag`.',
    required: ['name'],
    properties: {
      type: { const: 'named' },
      name: text('The flag, with its dashes.', 255),
      isRepeated: flag('It may be repeated.'),
      ...inputs,
    },
  },
])

const headers = list(keyed, 'Headers that the client sends.')
/** An http or https URL; it may begin with a variable instead. */
const endpoint = Type.String({
  pattern: '^(https?://|\\{)[^\\s]+$',
  maxLength: 2048,
  examples: ['https://example.com/mcp'],
})
const remoteShapes = ['streamable-http', 'sse'].map((type) => ({
  type: 'object',
  required: ['url'],
  properties: { type: { const: type }, url: endpoint, headers, variables },
}))

const transport = oneOf('type', [{ type: 'object', properties: { type: { const: 'stdio' } } }, ...remoteShapes])

const remotes = oneOf('type', remoteShapes)

const serverPackage = Type.Object({
  registryType: text('npm, pypi, oci, nuget, mcpb, cargo or another.', 64),
  identifier: text('Name of the package there, or its URL.', 2048),
  transport,
  ...optional({
    version: oneVersion('One version, no range.'),
    registryBaseUrl: Type.String({ format: 'uri', maxLength: 2048 }),
    fileSha256: Type.String({ pattern: '^[a-f0-9]{64}$' }),
    runtimeHint: text('The program that runs it: npx, uvx, docker.', 64),
    runtimeArguments: list(argument),
    packageArguments: list(argument),
    environmentVariables: list(keyed),
  }),
})

const icons = list(
  Type.Object({
    src: Type.String({ pattern: '^https://[^\\s]+$', maxLength: 255, examples: ['https://example.com/icon.png'] }),
    ...optional({
      mimeType: Type.Enum(['image/png', 'image/jpeg', 'image/jpg', 'image/svg+xml', 'image/webp'], { type: 'string' }),
      sizes: list(Type.String({ pattern: '^(\\d+x\\d+|any)$' })),
      theme: Type.Enum(['light', 'dark'], { type: 'string' }),
    }),
  }),
)

export const serverJson = Type.Object(
  {
    name: serverName('`namespace/name`.'),
    description: text('The purpose of the server.', 100),
    version,
    ...optional({
      $schema: Type.Enum(SCHEMA_DATES.map(schemaUrl), { type: 'string', description: 'The schema of the document.' }),
      title: text('Display name.', 100),
      repository: Type.Object({
        url: Type.String({ format: 'uri', maxLength: 2048 }),
        source: text('github, gitlab or another.', 64),
        ...optional({
          id: text('Id of the repository at its host.', 255),
          subfolder: text('Its folder in the repository.', 1024),
        }),
      }),
      websiteUrl: Type.String({ format: 'uri', maxLength: 2048 }),
      icons,
      packages: list(serverPackage, 'The packages that install it.'),
      remotes: list(remotes, 'The addresses at which it runs.'),
      _meta: freeObject('Extensions, by reverse DNS name.'),
    }),
  },
  { description: 'A server document (server.json).' },
)

/** The files of a skill: an image, or a folder of a git repository. */
const skillPackages = Type.Array(
  oneOf('registryType', [
    {
      type: 'object',
      required: ['identifier'],
      properties: {
        registryType: { const: 'oci' },
        identifier: text('The image.', 2048),
        digest: text('Its digest.', 255),
        mediaType: text('Its media type.', 255),
      },
    },
    {
      type: 'object',
      required: ['url'],
      properties: {
        registryType: { const: 'git' },
        url: text('URL of the repository.', 2048),
        ref: text('Branch or tag.', 255),
        commit: text('Commit.', 64),
        subfolder: text('Its folder in the repository.', 1024),
      },
    },
  ]),
  { maxItems: 64 },
)

export const skillJson = Type.Object(
  {
    namespace: Type.String({
      pattern: '^[a-zA-Z0-9.-]+$',
      minLength: 3,
      maxLength: 128,
      examples: ['com.example'],
    }),
    name: Type.String({ pattern: '^[a-z0-9]([a-z0-9-]*[a-z0-9])?$', maxLength: 64, examples: ['write-tests'] }),
    description: text('The purpose of the skill.', 1024),
    version,
    $schema: Type.Optional(Type.String({ format: 'uri', maxLength: 2048 })),
    status: Type.Optional(Type.Enum(['active', 'deprecated', 'archived'], { type: 'string' })),
    title: Type.Optional(text('Display name.', 100)),
    license: Type.Optional(text('SPDX expression or a name.', 256)),
    compatibility: Type.Optional(text('Its requirements.', 500)),
    allowedTools: Type.Optional(Type.Array(text('Name of a tool.', 255), { maxItems: 256 })),
    repository: Type.Optional(
      Type.Object({
        url: Type.String({ format: 'uri', maxLength: 2048 }),
        type: Type.Optional(text('git or another.', 64)),
      }),
    ),
    icons: Type.Optional(icons),
    packages: Type.Optional(skillPackages),
    metadata: Type.Optional(freeObject('Further metadata.')),
    _meta: Type.Optional(freeObject('Extensions, by reverse DNS name.')),
  },
  { description: 'A skill.' },
)
