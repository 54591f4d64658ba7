import { choice, defaulted, list, object, type Reader, Type, text } from '../schema.ts'

/** Bounds of pins: of all lists of an object together, of the digests of one name, and of the object's JSON in bytes. */
export const pinLimits = { items: 10_000, digests: 16, bytes: 1_000_000, name: 1024, uri: 2048 } as const

const MODES = ['disabled', 'report', 'enforce'] as const

const mode = (readBy: Reader) =>
  defaulted(
    choice(
      readBy,
      'enforce: only definitions that MCPPins approve are shown and served. report: all are, and those without approval are reported.',
      MODES,
      { default: 'disabled' },
    ),
  )

export const pinning = (readBy: Reader) =>
  object('Comparison of the server’s definitions with MCPPins.', { mode: mode(readBy) })

/** The comparison of the definitions of a gateway's members with MCPPins. */
export const gatewayPinning = object('Comparison of the members’ definitions with MCPPins.', {
  mode: mode('gateway'),
  unpinnedBackends: defaulted(
    choice('gateway', 'Treatment of members that do not enforce pins themselves.', ['withhold', 'allow'], {
      default: 'withhold',
    }),
  ),
})

/** The treatment of definitions that no pin approves. */
export type PinningMode = (typeof MODES)[number]

const digests = list(
  'Digests of the approved texts. Several stand for variants: of callers, of eras of MCP, of two versions during a rollout.',
  // The pattern is that of a SHA-256 by the formula of the prefix.
  text('gateway', 'A digest.', { max: 71, pattern: '^sha256:[0-9a-f]{64}$' }),
  // Atomic: the API server keeps a record of each item of a set, longer than the item, and objects would not fit.
  { min: 1, max: pinLimits.digests },
)

const pins = <const Key extends string>(description: string, key: Key, name: ReturnType<typeof text>) =>
  Type.Optional(
    list(
      description,
      object('An approved definition.', { ...({ [key]: name } as Record<Key, typeof name>), digests }),
      { type: { map: [key] }, max: pinLimits.items },
    ),
  )

const listedName = text('gateway', 'Name under which the server lists it.', { min: 1, max: pinLimits.name })

const uri = (description: string, pattern: { readonly pattern?: string } = {}) =>
  text('gateway', description, { min: 1, max: pinLimits.uri, ...pattern })

const unlisted = (what: string) =>
  Type.Optional(choice('gateway', `${what} that no pin names; withhold when left out.`, ['withhold', 'allow']))

/** The fields of an MCPPin that hold lists of pins. */
export const PIN_LISTS = ['tools', 'prompts', 'resources', 'resourceTemplates', 'pages'] as const

const sizes = PIN_LISTS.map((name) => `(has(self.${name}) ? size(self.${name}) : 0)`).join(' + ')

export const pinSpec = object(
  'Approved definitions of one server.',
  {
    targetRef: object('The server, in the same namespace.', {
      kind: choice('operator', 'Kind of the server.', ['MCPServer', 'MCPRemoteProxy', 'MCPServerEntry']),
      name: text('operator', 'Name of the server.', {
        min: 1,
        max: 253,
        refersTo: ['MCPServer', 'MCPRemoteProxy', 'MCPServerEntry'],
      }),
    }),
    instructions: Type.Optional(object('The approved instructions.', { digests })),
    tools: pins('The approved tools.', 'name', listedName),
    prompts: pins('The approved prompts.', 'name', listedName),
    resources: pins('The approved resources.', 'uri', uri('Its URI.')),
    resourceTemplates: pins('The approved resource templates.', 'uriTemplate', uri('Its URI template.')),
    pages: pins(
      'The approved pages of MCP apps, by the answer to a read.',
      'uri',
      uri('Its URI.', { pattern: '^ui://' }),
    ),
    unlisted: Type.Optional(
      object('Treatment of definitions that no pin names. Of several MCPPins of one server the strictest counts.', {
        tools: unlisted('Tools'),
        prompts: unlisted('Prompts'),
        resources: Type.Optional(
          choice(
            'gateway',
            'Resources that no pin names; withhold when left out. With bare they are shown by uri, mimeType and a name made safe.',
            ['withhold', 'bare', 'allow'],
          ),
        ),
        resourceTemplates: unlisted('Resource templates'),
        instructions: unlisted('Instructions'),
        pages: unlisted('Pages'),
      }),
    ),
  },
  {
    rules: [
      {
        rule: `${sizes} <= ${pinLimits.items}`,
        message: `at most ${pinLimits.items} pins fit into one object; use several MCPPins`,
      },
    ],
  },
)
