import { blockProperties } from '../../crds/settings/auth/external-auth.ts'
import { choice, list, object, type Static, Type, text } from '../../crds/settings/schema.ts'

const forwarded = object(
  'Headers that a caller sends for the server itself. A proxy that authenticates nobody passes them on; it treats a request without them as if this block were absent.',
  {
    headerNames: list(
      'Headers of a request that carry its credential for the server. The proxy passes them on.',
      text('gateway', 'Name of a header.', { min: 1 }),
      { min: 1 },
    ),
  },
)

const blocks = blockProperties('file')

/** Each caller's own credential for a backend: the blocks of MCPExternalAuthConfig, and `forwarded`. */
export const credential = object(
  'Each caller’s own credential for this backend. All but forwarded need callers with a name: incomingAuth oidc.',
  {
    type: choice('gateway', 'The way to obtain it.', [
      ...(Object.keys(blocks) as (keyof typeof blocks)[]),
      'forwarded' as const,
    ]),
    ...blocks,
    forwarded: Type.Optional(forwarded),
  },
)

export type CredentialConfig = Static<typeof credential>
/** The settings of a type. */
export type CredentialBlock<T extends CredentialConfig['type']> = NonNullable<CredentialConfig[T]>
