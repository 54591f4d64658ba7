/** Every reason of conditions, events and findings: its meaning and what to do. docs/conditions.md is made from it. */
export interface Reason {
  readonly means: string
  /** The action to take. Absent where nothing is wrong. */
  readonly next?: string
}

/** The conditions of our kinds: what each says. `Reconciling` and `Stalled` are those of kstatus. */
export const conditionTypes: Readonly<Record<string, string>> = {
  Ready: 'True when the workload serves with its newest revision.',
  Valid: 'False when the settings can’t be served. What ran before keeps running.',
  ReferencesResolved: 'False when something that the object refers to is missing or not valid.',
  PodTemplateValid: 'False when the pod template can’t be used.',
  ProofReady: 'False when proofs of possession (DPoP) can’t be checked as configured. Absent where none are checked.',
  GrantsValid:
    'False when grants without a login are not served, or admit more callers than they seem to. Absent where there are none.',
  Progressing: 'True while pods of the newest revision are missing, with the cause. Absent otherwise.',
  Reconciling: 'True while the operator works towards the desired state. Waiting helps.',
  Stalled: 'True when waiting does not help: somebody has to change something.',
  BackendsReady: 'False when members of the group are not served.',
  BackendsHealthy: 'False when backends are unavailable.',
  TrustedIssuersReady:
    'False when tokens of trusted issuers can’t be verified, or people of other organizations can present them. Absent without trusted issuers.',
  CatalogGate: 'False when a registry that decides what is served withholds members or can’t be asked.',
  CompositeToolsReady: 'False when composite tools are not offered in their newest form.',
  SourcesSynced: 'False when sources of a registry could not be read.',
  MembersListed: 'Whether a group has members.',
  RouteAccepted: 'Whether the Gateways carry the HTTPRoute.',
  DeletionBlocked: 'True while a config that is to be deleted is still in use.',
  EntriesValid: 'False when entries of a backend’s lists are left out.',
  DefinitionsApproved: 'False when definitions of a server are withheld because no MCPPin approves them.',
  AggregationConflict: 'True when two backends offer one name.',
  AuditLogUnavailable: 'True when audit lines can’t be written.',
  PodStatusUnknown: 'True when the operator can’t read the status of the pods.',
  ListTruncated: 'True when a list of the status is cut.',
  IdentitySynthesized: 'True when each login counts as a new user.',
  PortNameTaken: 'True when a container’s port has a name of the data plane.',
  AuthServerWarning: 'True when a restart loses logins.',
  AuthzWarning: 'True when policies are set and callers are anonymous.',
  BackendNameWarning: 'True when a setting names a backend that does not exist.',
  CompositeToolWarning: 'True when a step names a tool that does not exist.',
  EnvironmentWarning: 'True when variables of a container may be hidden.',
  ExposureWarning: 'True when every pod of the cluster can use a credential.',
  PermissionProfileWarning: 'True when a permission profile is not enforced.',
  PodTemplateWarning: 'True when a pod template uses a service account.',
  ProofWarning: 'True when tokens that the authorization server binds to keys are refused by the endpoint.',
  ProxyHeadersWarning: 'True when `trustProxyHeaders` has no effect.',
  RateLimitWarning: 'True when rate limits are weaker than they seem.',
  SessionStorageWarning: 'True when sessions end with their pod.',
  SettingsWarning: 'True when settings have no effect.',
  StorageWarning: 'True when published entries are lost with the pod.',
}

export const reasons: Readonly<Record<string, Reason>> = {
  BroadWorkload: {
    means:
      'A rule admits the ServiceAccount `default` without naming it, and so every pod that has no account of its own.',
    next: 'Name the accounts in `subject`, or in `matcher`.',
  },
  GrantConflict: {
    means: 'One grant is configured in two forms: in `inboundGrants`, and by fields of its own.',
    next: 'Configure it either in `inboundGrants`, or in `delegateClients` and `trustedIssuers`.',
  },
  LinksUnreachable: {
    means: 'A backend needs a token of a login, and callers by an assertion or as a client have no login.',
    next: 'Set `loginPolicy: onDemand` and `tokensPer: user` at the provider, or give the backend another credential.',
  },
  GrantsValid: { means: 'Callers get tokens without a login as configured.' },
  AddressRefused: {
    means: 'A remote server’s URL names an address that pods do not connect to, such as a link-local one.',
    next: 'Give the address at which the server is reached from the cluster.',
  },
  AggregationConflict: {
    means: 'Two backends offer the same name, and only one of them is shown.',
    next: 'Set `spec.config.aggregation.conflictResolution` to `prefix`, or rename one with a tool override.',
  },
  AllFound: { means: 'Everything that the object refers to exists.' },
  AllServed: { means: 'Every member of the group, or every definition, is served.' },
  AllSynced: { means: 'Every source of the registry was read without an error.' },
  AnonymousCallers: {
    means: 'Policies apply to callers who are all anonymous: every caller gets the same decision.',
    next: 'Set `oidcConfigRef`, so that callers log in, or write the policies for anonymous callers.',
  },
  AudienceConflict: {
    means: 'The OIDC configuration and the workload name different audiences.',
    next: 'Name the audience in one of the two places.',
  },
  AudienceMissing: {
    means: 'Tokens are verified, but no audience is configured that they must carry.',
    next: 'Set `audience` where the workload refers to the OIDC configuration.',
  },
  AuditLogNotWritten: {
    means: 'Calls are served, and their audit lines may be lost.',
    next: 'Look at the message for the file or the target, and give it space or rights.',
  },
  AuthServerNotShared: {
    means: 'Several replicas would each be an authorization server of its own.',
    next: 'Set `signingKeySecretRefs`, `hmacSecretRefs` and a `storage` of type redis, or run one replica.',
  },
  BackendsLeftOut: {
    means: 'Some members of the group are not served; the message names them with the cause.',
    next: 'Repair the members that the message names.',
  },
  BackendsUnavailable: {
    means: 'Some backends are unavailable; the message names them with the last error.',
    next: 'Look at the backend’s own pods or address; `kubectl portico status` shows which one.',
  },
  CABundleInvalid: {
    means: 'A CA bundle holds no certificate in PEM form.',
    next: 'Put the CA’s certificate into the key of the ConfigMap that the message names.',
  },
  CatalogStale: {
    means: 'The registry that decides what is served has not answered for longer than `maxStale`: nothing is served.',
    next: 'Look at the registry; the message has the last error.',
  },
  CatalogUnavailable: {
    means:
      'The registry that decides what is served can’t be reached. Its last answer stays in force, if there is one.',
    next: 'Check its address and the token: it needs the role `readGates` there.',
  },
  ChildContested: {
    means: 'Another controller keeps changing a field of a child that the operator sets.',
    next: 'End the other controller’s rule for this object, or leave the field to it.',
  },
  ChildRefused: {
    means: 'The API server refused a child of the object; the message has its answer.',
    next: 'Look for a quota, an admission policy or a missing right; the message says which.',
  },
  ChildTerminating: {
    means: 'A child of the same name is being deleted; the operator waits until it is gone.',
    next: 'If it does not go, look at the finalizers of the child.',
  },
  ConfigInvalid: {
    means: 'The object’s settings contradict each other or can’t be served.',
    next: 'Correct the field at the pointer in the message; `portico validate` shows the same before it is applied.',
  },
  ConfigMapKeyNotFound: {
    means: 'A ConfigMap that the object refers to lacks the key.',
    next: 'Add the key, or correct the reference.',
  },
  ConfigMapNotFound: {
    means: 'A ConfigMap that the object refers to does not exist in its namespace.',
    next: 'Create it, or correct the reference.',
  },
  ConfigTooLarge: {
    means: 'The configuration of the pods does not fit into a ConfigMap.',
    next: 'Split the group or the registry, or move large policies and definitions out of it.',
  },
  ConfigValid: { means: 'The object’s settings can be served.' },
  CountedByEachPod: {
    means: 'Each replica counts calls on its own, so that more calls are allowed in all.',
    next: 'Set `sessionStorage` with the provider `redis`.',
  },
  CrashLoopBackOff: {
    means: 'A container ends soon after each start.',
    next: 'Read its log: `kubectl portico logs KIND NAME`.',
  },
  CredentialUnusable: {
    means: 'A credential for a backend can’t be used as it is configured.',
    next: 'Correct the MCPExternalAuthConfig that the message names.',
  },
  DefinitionApproved: {
    means: 'All definitions that a server shows are approved again.',
    next: 'Nothing.',
  },
  DefinitionReported: {
    means: 'Definitions differ from those that MCPPins approve. They are served nevertheless.',
    next: 'Look at `portico diff --pins`, and approve the new texts with `portico pin` or ask who runs the server.',
  },
  DefinitionWithheld: {
    means: 'Definitions of a server are withheld because no MCPPin approves them.',
    next: 'Look at `portico diff --pins`, and approve the new texts with `portico pin` or ask who runs the server.',
  },
  DefinitionsLeftOut: {
    means: 'Some composite tools are not served; the message names them with the cause.',
    next: 'Correct the definitions that the message names.',
  },
  DefinitionsRefused: {
    means: 'The gateways refuse composite tools; the message names them with the cause.',
    next: 'Correct the definitions that the message names.',
  },
  DeletionBlocked: {
    means: 'The object is to be deleted, and others still refer to it.',
    next: 'Delete or repoint the objects that the message names.',
  },
  AllApproved: {
    means: 'MCPPins approve all definitions that the server shows.',
    next: 'Nothing.',
  },
  IssuerNameMismatch: {
    means: 'The metadata of a trusted issuer name another issuer. Even a slash at the end is a difference.',
    next: 'Write `issuerUrl` exactly as the issuer writes itself in its metadata and tokens.',
  },
  IssuersReady: { means: 'No trusted issuer has a problem that is known.' },
  KeysUnreachable: {
    means: 'The keys of a trusted issuer can’t be fetched. Its tokens are answered with 503 once no keys are known.',
    next: 'Look at the message for the address and the failure: network policies, `caBundleRef`, `jwksUrl`.',
  },
  MultiTenantIssuer: {
    means: 'A trusted issuer serves many organizations, and rules without an exact subject admit the people of all.',
    next: 'Set `tenants` with the tenants that are yours, or name exact subjects.',
  },
  Withheld: {
    means: 'Definitions of a server are withheld because no MCPPin approves them; the message has counts and names.',
    next: 'Look at `portico diff --pins`, and approve the new texts with `portico pin` or ask who runs the server.',
  },
  Unpinned: {
    means: 'Pins are enforced and no MCPPin names the server, so nothing of it is listed.',
    next: 'Write one with `portico pin`, read the texts in it, and apply it.',
  },
  PinsInvalid: {
    means: 'An MCPPin is larger than can be read. What runs keeps the pins that it had.',
    next: 'Spread the pins over several MCPPins of the server.',
  },
  Reported: {
    means: 'Definitions are compared with MCPPins and always served; the message names the differences.',
    next: 'Set `pinning.mode: enforce` once all is approved.',
  },
  EntryInvalid: {
    means: 'An entry of a backend’s list that clients could not read is left out.',
    next: 'Tell the operators of the backend: the message names the entry and the rule of MCP that it breaks.',
  },
  EnvFromHidden: {
    means: 'A variable from `envFrom` is hidden by one that the operator sets.',
    next: 'Rename the variable.',
  },
  FailedCreate: {
    means: 'The pods can’t be created.',
    next: 'Look for a quota or an admission policy; the message has the API server’s answer.',
  },
  Evicted: {
    means: 'A node has evicted a pod, and the one that takes its place is not ready yet.',
    next: 'The message has the node’s answer: look for what it is short of, and set `resources`.',
  },
  FailedAttachVolume: {
    means: 'A volume can’t be attached to the node of a pod.',
    next: 'The message has the cause; a volume that one node alone may use is free once the other pod is gone.',
  },
  FailedCreatePodSandBox: {
    means: 'A node can’t give a pod its network.',
    next: 'The message has the answer of the network plugin.',
  },
  FailedMapVolume: {
    means: 'A block volume of a pod can’t be made available, so that its containers are not started.',
    next: 'The message has the cause; look at the claim and its storage.',
  },
  FailedMount: {
    means: 'A volume of a pod can’t be mounted, so that its containers are not started.',
    next: 'Create the Secret, ConfigMap or claim that the message names, or correct the pod template.',
  },
  FinalizerRefused: {
    means: 'The API server refuses the finalizer that keeps an object while others use it. Its users are served.',
    next: 'Let the operator change the object in the admission policy that the message names.',
  },
  ImagePullBackOff: {
    means: 'A node can’t fetch an image.',
    next: 'Check the image’s name and tag, and the pull secret.',
  },
  InvalidPodTemplateSpec: {
    means: 'A pod template collides with what the operator puts into the pod.',
    next: 'Correct the field at the pointer in the message.',
  },
  IssuerMismatch: {
    means: 'The issuer of the authorization server is not that of the MCPOIDCConfig that checks its tokens.',
    next: 'Set both to the same URL.',
  },
  KindNotServed: {
    means: 'The cluster lacks a kind that is needed, such as HTTPRoute.',
    next: 'Install its definitions, or remove the field that needs it.',
  },
  Listed: { means: 'The members of the group are listed in its status.' },
  MembersWithheld: {
    means: 'Some members of the group are not in the catalog, or are there with another location: they are not served.',
    next: 'Publish what the message names, or correct its location in the catalog.',
  },
  MemorySessions: {
    means: 'Several replicas keep their sessions in memory; a session ends with its pod.',
    next: 'Set `sessionStorage` with the provider `redis`.',
  },
  NameInvalid: {
    means: 'A name can’t be used in this place.',
    next: 'Use the form that the message gives.',
  },
  NameTaken: {
    means: 'An object of the name that a child needs belongs to somebody else.',
    next: 'Rename one of the two, or delete the object that the message names.',
  },
  NoAnswer: {
    means: 'Not every Gateway has reported on the HTTPRoute yet.',
    next: 'If it lasts, look at the Gateway’s controller.',
  },
  NoBackends: {
    means: 'The group of the gateway has no members.',
    next: 'Set `groupRef` on the servers that belong to it.',
  },
  NoEffect: {
    means: 'A setting has no effect beside the others; the message names it.',
    next: 'Remove it, or change the setting that makes it useless.',
  },
  NoIdentity: {
    means: 'A login provider has neither `userInfo` nor `identityFromToken`: each login is a user of its own.',
    next: 'Set one of the two, so that users are known again.',
  },
  NoMembers: {
    means: 'The group has no members.',
    next: 'Set `groupRef` on the servers that belong to it.',
  },
  NoPublicHost: {
    means: '`trustProxyHeaders` is set, but `allowedHosts` has no host that `X-Forwarded-Host` may name.',
    next: 'Name the public host in `allowedHosts`, or set `resourceUrl`.',
  },
  NoSuchMember: {
    means: 'A setting names a backend that is not in the group.',
    next: 'Correct the name.',
  },
  NoSuchTool: {
    means: 'A step of a composite tool names a tool that no backend has.',
    next: 'Correct the name of the step’s tool.',
  },
  NoUsers: {
    means: 'A rate limit is for each user, and callers are anonymous: they share it.',
    next: 'Set `oidcConfigRef`, or limit all callers together.',
  },
  NoneUnavailable: { means: 'Every backend is available.' },
  NotEnforced: {
    means: 'A permission profile limits a server’s network, and nothing enforces it on this machine.',
    next: 'Nothing: in a cluster a NetworkPolicy enforces it.',
  },
  NotObserved: { means: 'The operator has no report on this yet.' },
  NotPersistent: {
    means: 'The authorization server keeps keys or logins in its pod: after a restart all users log in again.',
    next: 'Set `signingKeySecretRefs`, `hmacSecretRefs` and a `storage` of type redis.',
  },
  NotSupported: {
    means: 'A field of the widely used operator is not supported.',
    next: 'The message says what to use instead; without the field the object is served.',
  },
  OpenToAll: {
    means: 'Every pod of the cluster can use the credentials of this workload without a token.',
    next: 'Set `oidcConfigRef`, or name who may reach it in `networkPolicy.ingressFrom`.',
  },
  PodSecurityViolation: {
    means: 'A pod template asks for more than the Pod Security level baseline allows.',
    next: 'Remove the field that the message names, or run the operator with `--pod-template any`.',
  },
  PodsNotAsked: {
    means: 'The operator can’t ask the pods for their status.',
    next: 'Check that NetworkPolicies let the operator reach the admin port of the pods.',
  },
  PodsNotReady: {
    means: 'Pods exist but are not ready.',
    next: 'The message has the cause; `kubectl portico logs` shows their logs.',
  },
  PodsReady: { means: 'All pods of the newest revision are ready.' },
  PortNameTaken: {
    means: 'A container of the pod template has a port with a name of the data plane. The workload is served.',
    next: 'Rename the port if something selects it by name.',
  },
  PortTaken: {
    means: 'A container of the pod template listens on a port of the data plane.',
    next: 'Let it listen on another port, and set that one.',
  },
  ProgressDeadlineExceeded: {
    means: 'The new pods have not become ready in time. The old ones keep serving.',
    next: 'The message has the cause; `kubectl portico logs` shows the logs of the pods.',
  },
  Progressing: { means: 'Pods are starting.' },
  ProofsRead: { means: 'Proofs of possession (DPoP) are checked as configured.' },
  ProxyShutIn: {
    means:
      'A permission profile blocks connections out of the pod, but the proxy in it must reach what the message names.',
    next: 'List these addresses in a profile of type `configmap`.',
  },
  PublishedEntriesInPod: {
    means: 'What is published to the registry is kept in its pod and is lost with it.',
    next: 'Set `storage` or `database`.',
  },
  ReconcileFailed: {
    means: 'The operator failed to reconcile the object. It tries again.',
    next: 'If it lasts, report it with the operator’s log.',
  },
  ReferenceInvalid: {
    means: 'The object refers to another that is not valid.',
    next: 'Correct the object that the message names.',
  },
  ReferenceNotFound: {
    means: 'The object refers to another that does not exist in its namespace.',
    next: 'Create it, or correct the reference.',
  },
  ProofsNotRead: {
    means:
      'The authorization server binds tokens to keys of clients, but the endpoint does not check proofs of possession.',
    next: 'Set `dpop` in `incomingAuth` (in `oidcConfigRef` of a proxy), too, or take it from the authorization server.',
  },
  ReplayNotShared: {
    means: 'Replicas must share used proofs of possession, but have no Redis.',
    next: 'Set `sessionStorage` with the provider `redis`, or `replay: replica`.',
  },
  ReplicaFailure: {
    means: 'The pods can’t be created.',
    next: 'The message has the API server’s answer.',
  },
  RouteAccepted: { means: 'The Gateways carry the HTTPRoute.' },
  RouteRefused: {
    means: 'A Gateway refuses the HTTPRoute.',
    next: 'The message has the Gateway’s answer; check listeners, hostnames and allowed namespaces.',
  },
  SecretKeyNotFound: {
    means: 'A Secret that the object refers to lacks the key.',
    next: 'Add the key, or correct the reference.',
  },
  SecretNotFound: {
    means: 'A Secret that the object refers to does not exist in its namespace.',
    next: 'Create it, or correct the reference.',
  },
  ServerCardNeedsURL: {
    means: 'A server card is configured, but the endpoint has no URL that strangers can use.',
    next: 'Set `oidcConfigRef.resourceUrl`, or `serverCard.url`, to the public URL (https).',
  },
  ServiceAccountInTemplate: {
    means: 'A pod template names a service account, whose rights the container has.',
    next: 'Use `serviceAccount` of the spec if that is not meant.',
  },
  SourcesFailed: {
    means: 'Sources of the registry could not be read; the last good state of each is served.',
    next: 'The message names the sources with the cause.',
  },
  SourcesWaiting: { means: 'Sources of the registry have not been read yet.' },
  StatusRefused: {
    means: 'The API server refuses the status that the operator writes.',
    next: 'Install the definitions of this version: `kubectl apply -k crds`.',
  },
  StillReferenced: {
    means: 'The object is to be deleted, and others still refer to it.',
    next: 'Delete or repoint the objects that the message names.',
  },
  Stopped: { means: 'The workload is scaled to zero.' },
  TemplateValid: { means: 'The pod template can be used.' },
  Terminating: { means: 'The object is being deleted.' },
  TooManyToList: {
    means: 'A list in the status is too long and was cut. Nothing else is affected.',
  },
  Unschedulable: {
    means: 'No node can run a pod.',
    next: 'The message has the scheduler’s answer.',
  },
  UpstreamProviderUnknown: {
    means: 'A policy names a login provider that the gateway does not have.',
    next: 'Name one of the gateway’s `upstreamProviders`.',
  },
}

/** The reasons of findings in files: of `portico validate`, `render` and `run`. */
export const fileReasons: Readonly<Record<string, Reason>> = {
  Crashed: { means: 'A process ended unexpectedly; it is restarted.', next: 'Look at `.portico/run.log`.' },
  ApiVersionInvalid: { means: '`apiVersion` does not have the form GROUP/VERSION.', next: 'Correct it.' },
  ConfigRefused: {
    means: 'The data plane refuses its configuration and keeps the previous one.',
    next: 'Correct what the message names.',
  },
  Duplicate: { means: 'Two manifests describe the same object.', next: 'Remove one of the two.' },
  FileMissing: { means: 'A file or folder that was named does not exist.', next: 'Correct the path.' },
  FileUnreadable: { means: 'A file can’t be read.', next: 'Give your user the right to read it.' },
  FolderEmpty: { means: 'A folder holds no manifest.', next: 'Name the folder with the *.yaml files.' },
  GroupsDiffer: {
    means: 'Manifests are of several API groups.',
    next: 'Choose one with `--api-group`, or move the others with `portico migrate`.',
  },
  KindInvalid: { means: '`kind` is not a string.', next: 'Correct it.' },
  KindUnknown: { means: 'The API group has no kind of this name.', next: 'The message names the closest kind.' },
  LocalPortInvalid: { means: 'The annotation `local-port` is not a port.', next: 'Give a number from 1 to 65535.' },
  MetadataInvalid: { means: '`metadata` has a member of the wrong type.', next: 'Correct it at the pointer.' },
  NameMissing: { means: '`metadata.name` is missing.', next: 'Name the object.' },
  NamespaceInvalid: { means: '`metadata.namespace` is not a DNS label.', next: 'Correct it.' },
  NotAnObject: { means: 'A document is not an object.', next: 'Remove it, or correct its indentation.' },
  NotAnswering: { means: 'A process runs, and does not answer on its port.', next: 'Look at `.portico/run.log`.' },
  NotReady: { means: 'A process runs, and is not ready.', next: 'The message has the cause.' },
  NotRunnableHere: { means: 'A workload can’t run on this machine.', next: 'The message has the cause.' },
  NotStarted: { means: 'A process could not be started.', next: 'The message has the cause.' },
  PortRefused: { means: 'This user may not listen on the port.', next: 'Choose one above 1023 with `local-port`.' },
  SchemaInvalid: {
    means: 'A field is unknown or has a value that its schema refuses.',
    next: 'Correct it at the pointer.',
  },
  SecretAssumed: {
    means: 'A Secret is not among the manifests; it is assumed to be in the cluster.',
    next: 'Nothing, if the cluster has it.',
  },
  SyntaxInvalid: { means: 'A file is neither valid YAML nor JSON.', next: 'Correct the line that is named.' },
  WordReadAsBoolean: {
    means: 'A word such as `on` or `yes` is read as a boolean by Kubernetes.',
    next: 'Put it in quotes.',
  },
}
