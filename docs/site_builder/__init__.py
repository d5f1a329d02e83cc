"""Parts of the documentation site that the build makes: reference pages, pictures and charts."""
