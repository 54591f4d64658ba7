import { limits } from '../limits.ts'
import { choice, flag, list, object, type Reader, type Static, Type, text } from '../schema.ts'

const httpsUrl = (readBy: Reader, description: string) =>
  text(readBy, description, { min: 1, max: limits.url, pattern: '^https://[^\\s]+$' })

const icon = (readBy: Reader) =>
  object('An icon.', {
    src: httpsUrl(readBy, 'Its URL.'),
    mimeType: Type.Optional(text(readBy, 'Its media type.', { min: 1, max: 128 })),
    sizes: Type.Optional(
      list('Its sizes.', text(readBy, 'Such as `48x48`, or `any`.', { pattern: '^([0-9]+x[0-9]+|any)$', max: 16 }), {
        max: 8,
      }),
    ),
    theme: Type.Optional(choice(readBy, 'The background that it is for.', ['light', 'dark'])),
  })

export const serverCard = (readBy: Reader) =>
  object(
    'Description of the endpoint for strangers, at `<endpoint>/server-card` without authentication. Absent: there is none.',
    {
      name: text(readBy, 'Name in reverse DNS with one slash, such as `com.example/tools`; clients get it, too.', {
        min: 3,
        max: 200,
        pattern: '^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$',
      }),
      description: text(readBy, 'Purpose of the server.', { min: 1, max: 100 }),
      title: Type.Optional(text(readBy, 'Name shown to people.', { min: 1, max: 100 })),
      version: Type.Optional(
        text(readBy, 'Version, no range; clients get it, too. Absent: that of Portico.', {
          min: 1,
          max: 255,
          pattern: '^[A-Za-z0-9][A-Za-z0-9.+_-]*$',
        }),
      ),
      websiteUrl: Type.Optional(httpsUrl(readBy, 'Page about the server.')),
      icons: Type.Optional(list('Icons.', icon(readBy), { max: 8 })),
      repository: Type.Optional(
        object('The source code.', {
          url: httpsUrl(readBy, 'Its URL.'),
          source: text(readBy, 'The service that has it, such as `github`.', { min: 1, max: 64 }),
        }),
      ),
      url: Type.Optional(
        text(readBy, 'Public URL of the endpoint, https or on loopback, where no `resourceUrl` names it.', {
          min: 1,
          max: limits.url,
          pattern: '^https?://[^\\s?#]+$',
        }),
      ),
      catalog: Type.Optional(
        flag(readBy, 'List the card in `/.well-known/ai-catalog.json` of the host.', { default: false }),
      ),
    },
  )

export type ServerCard = Static<ReturnType<typeof serverCard>>
