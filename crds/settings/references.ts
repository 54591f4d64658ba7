import { mountedAs } from './file-form.ts'
import { limits } from './limits.ts'
import { choice, defaulted, flag, list, object, objectName, type Reader, Type, text, url } from './schema.ts'

export const secretKeyRef = (readBy: Reader, description: string) =>
  mountedAs(
    'secret',
    object(description, {
      name: objectName(readBy, 'Name of the Secret.', { refersTo: 'Secret' }),
      key: text(readBy, 'Key in the Secret.', { min: 1, max: limits.name }),
    }),
  )

export const configMapKeyRef = (readBy: Reader, description: string, options: { readonly key?: string } = {}) => {
  const key = text(readBy, 'Key in the ConfigMap.', {
    min: 1,
    max: limits.name,
    ...(options.key === undefined ? {} : { default: options.key }),
  })
  const reference = object(description, {
    name: objectName(readBy, 'Name of the ConfigMap.', { refersTo: 'ConfigMap' }),
    key: options.key === undefined ? key : defaulted(key),
  })
  return mountedAs('configMap', reference)
}

/** A CA bundle in a ConfigMap. `key` has a default, and `name` may be empty (the operator reports that). */
export const caBundleRef = (readBy: Reader, description: string) =>
  mountedAs(
    'caBundle',
    object(description, {
      configMapRef: Type.Optional(
        object('The ConfigMap and the key that hold the CA certificates (PEM).', {
          key: text(readBy, 'Key to select; `ca.crt` when left out.', { min: 1, max: limits.name, default: 'ca.crt' }),
          name: defaulted(
            text(readBy, 'Name of the ConfigMap.', { max: limits.name, default: '', refersTo: 'ConfigMap' }),
          ),
          optional: Type.Optional(flag(readBy, 'Whether the ConfigMap or its key may be absent.')),
        }),
      ),
    }),
  )

/** An object of one of our kinds, by name. The operator reads it, so configuration files omit the reference. */
export const objectRef = (readBy: Reader, kind: string, description: string) =>
  mountedAs(
    'nothing',
    object(description, {
      // A refused reference is not looked up, because its kind isn't ours.
      name: objectName(readBy, `Name of the ${kind}.`, typeof readBy === 'string' ? { refersTo: kind } : {}),
    }),
  )

export const oidcConfigRef = (readBy: Reader) =>
  object('The MCPOIDCConfig that validates incoming tokens.', {
    name: objectName(readBy, 'Name of the MCPOIDCConfig.', { refersTo: 'MCPOIDCConfig' }),
    audience: Type.Optional(
      text(readBy, 'Audience that a token must carry. Without one, `kubernetesServiceAccount` expects `toolhive`.', {
        min: 1,
        max: limits.url,
      }),
    ),
    scopes: Type.Optional(
      list(
        'Scopes told to clients. Tokens that state their scopes must have them, except those of OpenID Connect.',
        text(readBy, 'A scope.', { min: 1, max: limits.name }),
        { type: 'atomic' },
      ),
    ),
    resourceUrl: Type.Optional(
      url(readBy, 'Public URL of the MCP endpoint, the `resource` of RFC 9728. Absent: the URL of the Service.'),
    ),
  })

export const telemetryConfigRef = () =>
  object('The MCPTelemetryConfig of this workload.', {
    name: objectName('operator', 'Name of the MCPTelemetryConfig.', { refersTo: 'MCPTelemetryConfig' }),
    serviceName: Type.Optional(
      text('operator', 'OpenTelemetry `service.name` of this workload. Absent: its own name.', {
        min: 1,
        max: limits.name,
      }),
    ),
  })

export const authServerRef = (readBy: Reader) =>
  object('The MCPExternalAuthConfig of type `embeddedAuthServer` whose authorization server runs in front.', {
    kind: defaulted(
      choice(readBy, 'Kind of the object.', ['MCPExternalAuthConfig'], { default: 'MCPExternalAuthConfig' }),
    ),
    name: objectName(readBy, 'Name of the object.', { refersTo: 'MCPExternalAuthConfig' }),
  })
