import { limits } from '../limits.ts'
import { list, object, type Reader, Type, text } from '../schema.ts'

export const cors = (readBy: Reader) =>
  object('Pages in browsers that may call the MCP endpoint. Absent: none of other hosts.', {
    origins: Type.Optional(
      list(
        'Their origins.',
        text(readBy, 'An origin as browsers send it, such as `https://app.example.com`; `*` for all.', {
          min: 1,
          max: limits.url,
          pattern: '^(\\*|[a-z][a-z0-9+.-]*://[a-z0-9._:\\[\\]-]+)$',
        }),
        { max: 64 },
      ),
    ),
  })

export interface CorsSpec {
  readonly origins?: readonly string[]
}
