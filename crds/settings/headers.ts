import { gatewayHeaders, HEADER_NAME, HEADER_VALUE } from './header-rules.ts'
import { limits } from './limits.ts'
import { secretKeyRef } from './references.ts'
import { list, map, object, type Reader, Type, text } from './schema.ts'

export const headerName = (readBy: Reader, description: string) =>
  text(readBy, description, { min: 1, max: limits.headerName, pattern: HEADER_NAME })

/** Name of a header that carries a credential: none of those that the gateway itself sets. */
export const credentialHeaderName = (readBy: Reader, description: string) =>
  text(readBy, description, {
    min: 1,
    max: limits.headerName,
    pattern: HEADER_NAME,
    rules: [
      {
        rule: `!(self.lowerAscii() in [${gatewayHeaders.map((name) => `'${name}'`).join(', ')}])`,
        message: 'this header is set by the gateway itself',
      },
    ],
  })

export const headerValue = (readBy: Reader, description: string) =>
  text(readBy, description, { max: limits.headerValue, pattern: HEADER_VALUE })

/** A rule that every key of the map `self` is a header's name. */
export const headerKeys = {
  rule: `self.all(name, name.matches(r"${HEADER_NAME}"))`,
  message: "every key must be a header name (letters, digits and !#$%&'*+.^_`|~-)",
} as const

/** A rule that no two keys of the map `self` are the same header: names are compared without case (RFC 9110, 5.1). */
export const distinctHeaderKeys = {
  rule: 'self.all(one, self.exists_one(other, other.lowerAscii() == one.lowerAscii()))',
  message: 'a header is there twice: names are compared without case',
} as const

/** The same of the items of the list `self`, whose names are in `field`. */
export const distinctHeaders = (field: string) => ({
  rule: `self.all(one, self.exists_one(other, other.${field}.lowerAscii() == one.${field}.lowerAscii()))`,
  message: 'a header is there twice: names are compared without case',
})

/** CEL: whether no item of a list, whose names are in `field`, is a header that the map has. */
export const apart = (list: string, field: string, headers: string): string =>
  `!has(${headers}) || !has(${list}) || ${list}.all(item, !${headers}.exists(name, name.lowerAscii() == item.${field}.lowerAscii()))`

const restricted = [
  'host',
  'connection',
  'keep-alive',
  'proxy-authenticate',
  'proxy-authorization',
  'te',
  'trailer',
  'transfer-encoding',
  'upgrade',
  'content-length',
  'content-type',
  'content-encoding',
  'accept',
  'last-event-id',
  // Credentials of the client are for us: what a backend may have is decided by its own configuration.
  'authorization',
  'cookie',
  'forwarded',
]

const restrictedList = restricted.map((name) => `'${name}'`).join(', ')

/** A rule that header names in the list `self` are end-to-end ones that a gateway may hand on. */
const passableHeaders = {
  rule: `self.all(name, !(name.lowerAscii() in [${restrictedList}]) && !name.lowerAscii().startsWith('x-forwarded-') && !name.lowerAscii().startsWith('mcp-'))`,
  message: 'Host, credentials, X-Forwarded-* and headers of the connection or the protocol can not be passed through',
} as const

export const headerForward = (readBy: Reader) =>
  object(
    'Headers added to each request to the remote server.',
    {
      addPlaintextHeaders: Type.Optional(
        map('Headers and their values. Not for credentials.', headerValue(readBy, 'The value.'), {
          rules: [headerKeys, distinctHeaderKeys],
        }),
      ),
      addHeadersFromSecret: Type.Optional(
        list(
          'Headers whose values are in Secrets.',
          object('A header.', {
            headerName: headerName(readBy, 'Name of the header.'),
            valueSecretRef: secretKeyRef(readBy, 'Where the value is.'),
          }),
          { type: { map: ['headerName'] }, rules: [distinctHeaders('headerName')] },
        ),
      ),
    },
    {
      rules: [
        {
          rule: apart('self.addHeadersFromSecret', 'headerName', 'self.addPlaintextHeaders'),
          message: 'a header may be in addPlaintextHeaders or in addHeadersFromSecret, not in both',
        },
      ],
    },
  )

export const passthroughHeaders = (readBy: Reader) =>
  list('Headers of the client’s request that are passed on to backends.', headerName(readBy, 'Name of a header.'), {
    rules: [passableHeaders],
  })
