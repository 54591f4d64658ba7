import { gatewayHeaders, HEADER_NAME, HEADER_VALUE, unpassedHeaders } from './header-rules.ts'
import { limits } from './limits.ts'
import { secretKeyRef } from './references.ts'
import { list, map, object, type Reader, Type, text } from './schema.ts'

export const headerName = (readBy: Reader, description: string) =>
  text(readBy, description, { min: 1, max: limits.headerName, pattern: HEADER_NAME })

/** The name of a header that carries a credential. Headers that the gateway itself sets are excluded. */
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

/** A CEL rule: every key of the map `self` is a header name. */
export const headerKeys = {
  rule: `self.all(name, name.matches(r"${HEADER_NAME}"))`,
  message: "every key must be a header name (letters, digits and !#$%&'*+.^_`|~-)",
} as const

/** A CEL rule: no two keys of the map `self` are the same header. Names are compared without case (RFC 9110, 5.1). */
export const distinctHeaderKeys = {
  rule: 'self.all(one, self.exists_one(other, other.lowerAscii() == one.lowerAscii()))',
  message: 'a header is set twice: names are compared without case',
} as const

/** The same rule for the items of the list `self`, whose names are in `field`. */
export const distinctHeaders = (field: string) => ({
  rule: `self.all(one, self.exists_one(other, other.${field}.lowerAscii() == one.${field}.lowerAscii()))`,
  message: 'a header is set twice: names are compared without case',
})

/** Returns a CEL expression: no item of a list, whose names are in `field`, is a header of the map. */
export const apart = (list: string, field: string, headers: string): string =>
  `!has(${headers}) || !has(${list}) || ${list}.all(item, !${headers}.exists(name, name.lowerAscii() == item.${field}.lowerAscii()))`

const unpassedList = unpassedHeaders.map((name) => `'${name}'`).join(', ')

/** A CEL rule: the header names in the list `self` are end-to-end headers that a gateway may forward. */
const passableHeaders = {
  rule: `self.all(name, !(name.lowerAscii() in [${unpassedList}]) && !name.lowerAscii().startsWith('x-forwarded-') && !name.lowerAscii().startsWith('mcp-'))`,
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
            valueSecretRef: secretKeyRef(readBy, 'The Secret with the value.'),
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
