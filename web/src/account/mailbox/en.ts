export const en = {
  title: 'Mailbox',
  intro: 'This service sends no e-mail. It shows each e-mail here instead. For development only.',
  empty: 'No mail yet. Ask for a sign-in code, and load this page again. Only known addresses get a code, such as the one that bursar dev prints.',
  to: 'To',
  text: 'Plain text',
  gallery: 'Samples of all mails',
  galleryIntro: 'A sample of every e-mail that Bursar sends.',
}
