import { limits } from '../limits.ts'
import { type Reader, text } from '../schema.ts'

/** The path before the endpoint, as people write it. It may be empty and may end in a slash. */
export const endpointPrefix = (readBy: Reader) =>
  text(
    readBy,
    'Path under which a proxy in front shows the endpoint. Public URLs contain it; requests are served with and without it.',
    { max: limits.text, pattern: '^(/[A-Za-z0-9_~-][A-Za-z0-9._~-]*)*/?$' },
  )
