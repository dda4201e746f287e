//! The site: files shared by all pages, and each blob's page in the form of its variant.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;

use super::icons::{self, Icons, SIDE};
use super::{ICONS_SAID, Variant};
use crate::host::server::secret_directory;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum PageForm {
    /// Each icon is a request.
    Separate,
    /// All icons are in one image, cut by a style sheet.
    Sprite,
    /// The icons are inlined in the page.
    Inlined,
    /// The content is fetched after the page has loaded.
    AfterLoad,
    /// The same, with a preload link at the top of the page.
    Preload,
    /// The content is inlined in the page.
    Pipelined,
}

impl PageForm {
    /// True if the page shows icons; otherwise it shows content.
    pub(super) fn has_icons(self) -> bool {
        matches!(self, PageForm::Separate | PageForm::Sprite | PageForm::Inlined)
    }

    /// True if the content is a document of its own.
    fn fetches(self) -> bool {
        matches!(self, PageForm::AfterLoad | PageForm::Preload)
    }
}

#[derive(Debug)]
pub(super) struct PageDirectory {
    /// Document root: the error page, and the directory of all other pages under a secret name.
    served: PathBuf,
    root: PathBuf,
    variant: &'static Variant,
    icons: Icons,
    /// Bytes of all icons, of the sprite and of its style sheet.
    pub(super) sizes: [usize; 3],
}

impl PageDirectory {
    /// Creates the files shared by all pages, below `served`.
    pub(super) fn make(served: PathBuf, variant: &'static Variant, icons: Icons) -> Result<PageDirectory> {
        let root = secret_directory(&served)?;
        let files: Vec<Vec<u8>> = (0..icons.count).map(|number| icons.icon(number)).collect::<Result<_>>()?;
        let (sprite, styles) = (icons.sprite()?, style_sheet(icons.count));
        std::fs::create_dir_all(root.join("icons"))?;
        for (number, icon) in files.iter().enumerate() {
            std::fs::write(root.join(format!("icons/{number}.png")), icon)?;
        }
        std::fs::write(root.join("sprite.png"), &sprite)?;
        std::fs::write(root.join("icons.css"), &styles)?;
        std::fs::write(served.join("refused.html"), REFUSED)?;
        let sizes = [files.iter().map(Vec::len).sum(), sprite.len(), styles.len()];
        Ok(PageDirectory { served, root, variant, icons, sizes })
    }

    /// The document root of the web server.
    pub(super) fn served(&self) -> &Path {
        &self.served
    }

    /// The path of a blob's page.
    pub(super) fn path_of(&self, name: &str) -> String {
        format!("/{}/{name}/", self.root.file_name().unwrap_or_default().to_string_lossy())
    }

    /// Creates or replaces a blob's page. Only one of its files depends on the blob, and that one is replaced atomically.
    pub(super) fn publish(&self, name: &str, blob: &[u8]) -> Result<()> {
        let directory = self.root.join(name);
        std::fs::create_dir_all(&directory)?;
        let data = format!("{{\"content\":\"{}\"}}", BASE64.encode(blob));
        let page = html(self.variant, self.icons, &data)?;
        if !self.variant.form.fetches() {
            return replace(&directory.join("index.html"), &page);
        }
        replace(&directory.join("content.json"), &data)?;
        match directory.join("index.html") {
            // It does not depend on the blob.
            known if known.exists() => Ok(()),
            new => replace(&new, &page),
        }
    }

    /// Removes a blob's page, if it exists.
    pub(super) fn withdraw(&self, name: &str) -> Result<()> {
        match std::fs::remove_dir_all(self.root.join(name)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error.into()),
            _ => Ok(()),
        }
    }
}

fn replace(path: &Path, text: &str) -> Result<()> {
    let draft = path.with_extension("draft");
    let write = || -> std::io::Result<()> {
        std::fs::write(&draft, text)?;
        std::fs::rename(&draft, path)
    };
    write().with_context(|| format!("cannot write `{}`", path.display()))
}

/// The style sheet with each icon's position in the sprite.
fn style_sheet(icons: usize) -> String {
    let mut rules = format!(
        ".icon {{ display: inline-block; width: {SIDE}px; height: {SIDE}px; background: url(sprite.png) no-repeat }}\n"
    );
    for number in 0..icons {
        let (left, top) = icons::place(number);
        // Writing to a string cannot fail.
        writeln!(rules, ".icon-{number} {{ background-position: -{left}px -{top}px }}").ok();
    }
    rules
}

/// The HTML of a page. Forms differ in additions to the head, in images, data and script, and in nothing else.
fn html(variant: &Variant, icons: Icons, data: &str) -> Result<String> {
    let form = variant.form;
    let inline = format!("<script type=\"application/json\" id=\"data\">{data}</script>\n");
    let (head, data, script) = match form {
        PageForm::Separate | PageForm::Inlined => ("", inline.as_str(), OWN_PICTURES),
        PageForm::Sprite => (SPRITE_HEAD, inline.as_str(), SHARED_PICTURE),
        PageForm::AfterLoad => ("", "", FETCHED),
        PageForm::Preload => (PRELOAD_HEAD, "", FETCHED),
        PageForm::Pipelined => ("", inline.as_str(), AT_HAND),
    };
    let (name, about) = (variant.name, variant.about.replace(ICONS_SAID, &icons.count.to_string()));
    let pictures = pictures(form, icons)?;
    Ok(format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n<title>{name}</title>\n\
         <link rel=\"icon\" href=\"data:,\">\n<style>\n{STYLE}</style>\n{head}</head>\n<body>\n\
         <h1>{name}</h1>\n<p>{about}</p>\n<main>\n{pictures}</main>\n<p id=\"content\"></p>\n\
         {data}<script>\n{COMMON}{script}</script>\n</body>\n</html>\n"
    ))
}

fn pictures(form: PageForm, icons: Icons) -> Result<String> {
    let image =
        |source: &str| format!("<img src=\"{source}\" width=\"{SIDE}\" height=\"{SIDE}\" alt=\"\">\n");
    let one = |number: usize| -> Result<String> {
        Ok(match form {
            PageForm::Separate => image(&format!("../icons/{number}.png")),
            PageForm::Inlined => {
                image(&format!("data:image/png;base64,{}", BASE64.encode(icons.icon(number)?)))
            }
            PageForm::Sprite => format!("<i class=\"icon icon-{number}\"></i>\n"),
            // One more request, as usual for pages: the load event comes only after it.
            PageForm::AfterLoad | PageForm::Preload | PageForm::Pipelined => image("../icons/0.png"),
        })
    };
    (0..if form.has_icons() { icons.count } else { 1 }).map(one).collect()
}

/// As a careful author writes it: without the preload link, the browser would find the image only after the style sheet has
/// arrived.
const SPRITE_HEAD: &str = "<link rel=\"stylesheet\" href=\"../icons.css\">\n<link rel=\"preload\" href=\"../sprite.png\" as=\"image\">\n";
const PRELOAD_HEAD: &str =
    "<link rel=\"preload\" href=\"content.json\" as=\"fetch\" crossorigin=\"anonymous\">\n";

const STYLE: &str = "\
body { margin: 24px; font: 14px/1.5 \"DejaVu Sans\", sans-serif; color: #222; background: #fff }
h1 { margin: 0; font-size: 20px }
p { margin: 4px 0 16px; max-width: 40em }
main { display: grid; grid-template-columns: repeat(8, 16px); gap: 8px }
#content { margin-top: 16px; border: 8px solid #f3f3f3; background: #f3f3f3; font: 11px/16px \"DejaVu Sans Mono\", monospace;
  overflow-wrap: anywhere; max-height: 96px; overflow: hidden }
";

/// Script of all pages: shows bytes as text, waits for the frame that has everything, and reports to the listener.
const COMMON: &str = "\
const show = (data) => {
  const text = atob(data.content).replaceAll(\"\\n\", \" \").replace(/[^ -~]/g, \"\\u00b7\");
  document.getElementById(\"content\").textContent = text;
  return data.content;
};
const atHand = () => show(JSON.parse(document.getElementById(\"data\").textContent));
// The moment after the next frame was handed over for painting.
const painted = () => new Promise((done) => requestAnimationFrame(() => {
  const channel = new MessageChannel();
  channel.port1.onmessage = () => done(performance.now());
  channel.port2.postMessage(null);
}));
const tell = (told) => {
  told.protocol = performance.getEntriesByType(\"navigation\")[0].nextHopProtocol;
  if (window.blobwise) blobwise(JSON.stringify(told));
};
const whenPainted = async (content, decoded) => tell({ content, decoded, shown: await painted() });
const failed = (error) => tell({ failed: String(error) });
";

const OWN_PICTURES: &str = "\
(async () => {
  const content = atHand();
  const icons = [...document.querySelectorAll(\"main img\")];
  await Promise.all(icons.map((icon) => icon.decode()));
  await whenPainted(content, icons.filter((icon) => icon.naturalWidth === 16).length);
})().catch(failed);
";

const SHARED_PICTURE: &str = "\
(async () => {
  const content = atHand();
  const sprite = new Image();
  sprite.src = \"../sprite.png\";
  await sprite.decode();
  const cut = (icon) => getComputedStyle(icon).backgroundImage.includes(sprite.src);
  const icons = [...document.querySelectorAll(\"main .icon\")].filter(cut);
  await whenPainted(content, sprite.naturalWidth === 128 ? icons.length : 0);
})().catch(failed);
";

const FETCHED: &str = "\
addEventListener(\"load\", () => (async () => {
  const answer = await fetch(\"content.json\");
  if (!answer.ok) throw new Error(`HTTP status ${answer.status} for the content`);
  await whenPainted(show(await answer.json()), null);
})().catch(failed));
";

const AT_HAND: &str = "whenPainted(atHand(), null).catch(failed);\n";

/// The error page, which reports the status.
const REFUSED: &str = "\
<!doctype html>
<title>No such page</title>
<p>There is no such page.</p>
<script>
const refused = performance.getEntriesByType(\"navigation\")[0].responseStatus;
if (window.blobwise) blobwise(JSON.stringify({ refused }));
</script>
";

#[cfg(test)]
mod tests {
    use super::super::VARIANTS;
    use super::*;

    const COUNT: usize = 64;
    const ICONS: Icons = Icons { count: COUNT, bytes: None };

    fn page(form: PageForm) -> String {
        let variant = VARIANTS.iter().find(|variant| variant.form == form).unwrap();
        html(variant, ICONS, "{\"content\":\"aGVsbG8=\"}").unwrap()
    }

    fn count(text: &str, part: &str) -> usize {
        text.matches(part).count()
    }

    #[test]
    fn icons_come_as_the_variant_says() {
        let separate = page(PageForm::Separate);
        assert_eq!(count(&separate, "<img src=\"../icons/"), COUNT);
        assert!(separate.contains("\"../icons/0.png\"") && separate.contains("\"../icons/63.png\""));
        let sprite = page(PageForm::Sprite);
        assert_eq!((count(&sprite, "<i class=\"icon icon-"), count(&sprite, "<img")), (COUNT, 0));
        assert_eq!((count(&sprite, "../icons.css"), count(&sprite, "rel=\"preload\"")), (1, 1));
        let inlined = page(PageForm::Inlined);
        assert_eq!(
            (count(&inlined, "<img src=\"data:image/png;base64,"), count(&inlined, "src=\"../")),
            (COUNT, 0)
        );
    }

    #[test]
    fn content_comes_as_the_variant_says() {
        for form in [PageForm::Separate, PageForm::Sprite, PageForm::Inlined, PageForm::Pipelined] {
            assert!(page(form).contains("aGVsbG8=") && !page(form).contains("fetch("), "{form:?}");
        }
        for form in [PageForm::AfterLoad, PageForm::Preload] {
            assert!(
                !page(form).contains("aGVsbG8=") && page(form).contains("fetch(\"content.json\")"),
                "{form:?}"
            );
        }
        assert!(
            page(PageForm::Preload).contains(PRELOAD_HEAD) && !page(PageForm::AfterLoad).contains("preload")
        );
    }

    /// These two forms differ in the preload link only.
    #[test]
    fn after_load_and_preload_differ_in_one_line() {
        let variant = |form| VARIANTS.iter().find(|variant| variant.form == form).unwrap();
        let (early, late) = (variant(PageForm::Preload), variant(PageForm::AfterLoad));
        let renamed = page(PageForm::Preload).replace(early.name, late.name).replace(early.about, late.about);
        assert_eq!(renamed.replace(PRELOAD_HEAD, ""), page(PageForm::AfterLoad));
    }

    #[test]
    fn the_style_sheet_has_a_rule_for_every_icon() {
        let rules = style_sheet(COUNT);
        assert_eq!(rules.lines().count(), COUNT + 1);
        assert!(rules.contains(".icon-9 { background-position: -16px -16px }"));
        // The published one had 3.6 kB.
        assert!((3_000..4_200).contains(&rules.len()), "{} B", rules.len());
    }
}
