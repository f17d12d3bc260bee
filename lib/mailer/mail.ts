/** A mailbox as an object, so that a name needs no quoting. */
export interface MailAddress {
  name?: string;
  address: string;
}

/** `'a@example.com'`, `'Ann <a@example.com>, b@example.com'`, an object, or a list of these. */
export type MailAddresses = string | MailAddress | readonly (string | MailAddress)[];

/** Content of a mail or an attachment: given itself, or by a reference that is read when the mail is sent. */
export interface MailContent {
  /** Stored in the outbox; a Buffer as base64. */
  content?: string | Uint8Array;
  /** A file that the sending process can read when the mail is sent: each attempt reads it anew. Or a data URI. */
  path?: string;
  /** A URL that is fetched when the mail is sent, by each attempt. */
  href?: string;
  /** Request headers for `href`. They are stored: give no secrets. */
  httpHeaders?: Record<string, string>;
  /** How a string `content` is encoded, e.g. `'base64'`. Default `'utf8'`. */
  encoding?: string;
  /** Default: by the file name. */
  contentType?: string;
  contentTransferEncoding?: string | false;
  filename?: string | false;
  headers?: MailHeaders;
}

export interface MailAttachment extends MailContent {
  contentDisposition?: 'attachment' | 'inline';
  /** Content id, for images that the HTML shows with `cid:…`. */
  cid?: string;
  /** A finished MIME part; nothing else is given then. */
  raw?: string;
}

export interface MailCalendarEvent extends MailContent {
  /** Default `'PUBLISH'`. */
  method?: string;
}

/** A header's value; a list makes several headers of one name. */
export type MailHeaderValue =
  string | readonly string[] | { prepared: true; value: string; foldLines?: boolean };
export type MailHeaders =
  Record<string, MailHeaderValue> | readonly { key: string; value: MailHeaderValue }[];

/** For whom the transport takes the mail, where that is not what its headers say. */
export interface MailEnvelope {
  /** Where bounces go. */
  from?: string;
  to?: MailAddresses;
  cc?: MailAddresses;
  bcc?: MailAddresses;
}

/** One link of a `List-…` header. */
export type MailListLink = string | { url: string; comment?: string };

/**
 * An e-mail under nodemailer's names, as far as it can be stored: no streams, and no secrets (`auth`, `dkim`), which
 * belong to the transport.
 */
export interface Mail {
  /** Default: the module's `from`. */
  from?: string | MailAddress;
  sender?: string | MailAddress;
  to?: MailAddresses;
  cc?: MailAddresses;
  bcc?: MailAddresses;
  replyTo?: MailAddresses;
  subject?: string;
  text?: string | Uint8Array | MailContent;
  html?: string | Uint8Array | MailContent;
  /** For Apple Watch. */
  watchHtml?: string | Uint8Array | MailContent;
  amp?: string | Uint8Array | MailContent;
  icalEvent?: string | Uint8Array | MailCalendarEvent;
  attachments?: readonly MailAttachment[];
  alternatives?: readonly MailContent[];
  /** Further headers. Those with a field of their own are given there. */
  headers?: MailHeaders;
  /** `List-…` headers by the part after `List-`, e.g. `unsubscribe`. */
  list?: Record<string, MailListLink | readonly (MailListLink | readonly MailListLink[])[]>;
  envelope?: MailEnvelope;
  /** Default: made of the outbox message's id, so that it is the same in every attempt. */
  messageId?: string;
  inReplyTo?: string;
  references?: string | readonly string[];
  /** The `Date` header. Default: when it is sent. */
  date?: Date | string;
  priority?: 'high' | 'normal' | 'low';
  /** Content-Transfer-Encoding of the text parts. */
  encoding?: string;
  textEncoding?: 'quoted-printable' | 'base64' | 'Q' | 'B';
  /** The `X-Mailer` header; `false` for none. */
  xMailer?: string | false;
  /** Makes attachments of the data URIs in the HTML. */
  attachDataUrls?: boolean;
  disableFileAccess?: boolean;
  disableUrlAccess?: boolean;
  /** SMTP only: what to tell the sender about the delivery. */
  dsn?: Record<string, unknown>;
  /** SES only: further parameters of `SendEmailCommand`, e.g. `ConfigurationSetName`. */
  ses?: Record<string, unknown>;
}
